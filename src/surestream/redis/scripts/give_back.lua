-- Hands entries back unsettled (rules 6.2 and 7.4). They stay pending, with the holder, the idle time
-- and the delivery count they are given. Only what is still ours (rule 5.4).
--
-- KEYS[1]  stream: XPENDING, XRANGE, XCLAIM
-- ARGV[1]  consumer group
-- ARGV[2]  this consumer
-- ARGV[3]  the consumer that shall have them
-- ARGV[4]  milliseconds they shall look idle
-- ARGV[5]… for each entry: id, its delivery count now, the count it shall have
--
-- Returns {gone, unknown}: gone are ids that the stream no longer has and that nobody else holds: they
-- are left alone, for claiming them would clear them from the pending list; the caller has their
-- content. Unknown are ids that are in the stream and pending for nobody: settled by another, or the
-- group has been created again.

local stream, group, consumer, holder, idle = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local gone, unknown = {}, {}
for i = 5, #ARGV, 3 do
  local id = ARGV[i]
  local pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
  local ours = pending and pending[2] == consumer and pending[4] == tonumber(ARGV[i + 1])
  if ours or not pending then
    if not redis.call('XRANGE', stream, id, id)[1] then
      gone[#gone + 1] = id
    elseif ours then
      redis.call('XCLAIM', stream, group, holder, 0, id,
        'IDLE', idle, 'RETRYCOUNT', ARGV[i + 2], 'JUSTID')
    else
      unknown[#unknown + 1] = id
    end
  end
end
return {gone, unknown}
