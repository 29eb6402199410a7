-- Renews the claim on entries (rule 6.2): their idle time begins anew, their count stays. Skips what
-- is no longer ours with the same count (rule 5.4) and what the stream no longer has: from Redis 7
-- on, claiming that would clear it from the pending list.
--
-- KEYS[1]  stream: XPENDING, XRANGE, XCLAIM
-- ARGV[1]  consumer group
-- ARGV[2]  this consumer
-- ARGV[3]… for each entry: id, its delivery count
--
-- Returns how many claims were renewed.

local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local touched = 0
for i = 3, #ARGV, 2 do
  local id = ARGV[i]
  local pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
  if pending and pending[2] == consumer and pending[4] == tonumber(ARGV[i + 1])
    and redis.call('XRANGE', stream, id, id)[1] then
    redis.call('XCLAIM', stream, group, consumer, 0, id, 'JUSTID')
    touched = touched + 1
  end
end
return touched
