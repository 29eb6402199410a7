-- Reads again what was delivered to this consumer in a reply that got lost (rule 6.4): delivery
-- counts stay as they are, the idle time begins anew. An entry that is pending but no longer in
-- the stream is cleared from the pending list.
--
-- KEYS[1]  stream: XPENDING, XRANGE, XCLAIM, XACK
-- ARGV[1]  consumer group
-- ARGV[2]  this consumer
-- ARGV[3]… for each entry: id, the delivery count it must have
--
-- Returns {entries, ghosts}: {id, fields, delivery count} for each entry that is pending for this
-- consumer with that count, and the ids that were cleared.

local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local entries, ghosts = {}, {}
for i = 3, #ARGV, 2 do
  local id = ARGV[i]
  local pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
  if pending and pending[2] == consumer and pending[4] == tonumber(ARGV[i + 1]) then
    local entry = redis.call('XRANGE', stream, id, id)[1]
    if entry then
      -- Zero stands where it was handed back at a stop; now it counts as delivered.
      local count = math.max(pending[4], 1)
      redis.call('XCLAIM', stream, group, consumer, 0, id, 'RETRYCOUNT', count, 'JUSTID')
      entries[#entries + 1] = {id, entry[2], count}
    else
      redis.call('XACK', stream, group, id)
      ghosts[#ghosts + 1] = id
    end
  end
end
return {entries, ghosts}
