-- After the group was lost and created again: makes entries that this process still holds pending
-- for this consumer, with a delivery count of 1, so that their fence holds (rules 5.4 and 6.6).
-- Left alone: what is pending already, and what the stream no longer has.
--
-- KEYS[1]  stream: XPENDING, XRANGE, XCLAIM FORCE
-- ARGV[1]  consumer group
-- ARGV[2]  this consumer
-- ARGV[3]… ids
--
-- Returns the ids that are pending for this consumer now.

local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local adopted = {}
for i = 3, #ARGV do
  local id = ARGV[i]
  if not redis.call('XPENDING', stream, group, id, id, 1)[1]
    and redis.call('XRANGE', stream, id, id)[1] then
    redis.call('XCLAIM', stream, group, consumer, 0, id, 'RETRYCOUNT', 1, 'FORCE', 'JUSTID')
    adopted[#adopted + 1] = id
  end
end
return adopted
