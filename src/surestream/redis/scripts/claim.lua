-- Takes over entries whose worker is gone (rule 6.4): their delivery count rises by one. An entry
-- that is pending but no longer in the stream (deleted, trimmed) is cleared from the pending list.
--
-- KEYS[1]  stream: XPENDING, XCLAIM, XACK
-- ARGV[1]  consumer group
-- ARGV[2]  this consumer
-- ARGV[3]  milliseconds an entry must have been idle; 0 for any
-- ARGV[4]  only entries pending for this consumer; '' for anybody's
-- ARGV[5]… ids
--
-- Returns {taken, ghosts}: taken is {id, fields, delivery count} for each entry, ghosts the ids that
-- were cleared. Ids that are settled, busy or another's are left alone.

local stream, group, consumer, idle, owner = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local taken, ghosts = {}, {}
for i = 5, #ARGV do
  local id = ARGV[i]
  local pending
  if tonumber(idle) > 0 then
    pending = redis.call('XPENDING', stream, group, 'IDLE', idle, id, id, 1)[1]
  else
    pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
  end
  if pending and (owner == '' or pending[2] == owner) then
    local entry = redis.call('XCLAIM', stream, group, consumer, 0, id)[1]
    -- Redis 7 has dropped the ghost by now, older ones answer nil for it.
    if entry and entry[2] then
      taken[#taken + 1] = {id, entry[2], pending[4] + 1}
    else
      redis.call('XACK', stream, group, id)
      ghosts[#ghosts + 1] = id
    end
  end
end
return {taken, ghosts}
