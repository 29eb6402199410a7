-- Hands entries back unsettled (rule 7.4). They stay pending for this consumer, look idle for long,
-- so that the next look for orphans takes them over at once, and have the count they are given.
-- Only what is still ours (rule 5.4).
--
-- KEYS[1]  stream: XPENDING, XCLAIM
-- ARGV[1]  consumer group
-- ARGV[2]  this consumer
-- ARGV[3]  milliseconds they shall look idle
-- ARGV[4]… for each entry: id, its delivery count now, the count it shall have
--
-- Returns how many were handed back.

local stream, group, consumer, idle = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local given = 0
for i = 4, #ARGV, 3 do
  local id = ARGV[i]
  local pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
  if pending and pending[2] == consumer and pending[4] == tonumber(ARGV[i + 1]) then
    redis.call('XCLAIM', stream, group, consumer, 0, id,
      'IDLE', idle, 'RETRYCOUNT', ARGV[i + 2], 'JUSTID')
    given = given + 1
  end
end
return given
