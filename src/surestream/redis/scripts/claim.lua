-- Takes over entries that nobody has touched for long enough (rules 6.3 and 6.4): their delivery
-- count rises by one. An entry that is pending but no longer in the stream (deleted, trimmed) is
-- cleared from the pending list.
--
-- KEYS[1]  stream: XPENDING, XCLAIM, XACK
-- ARGV[1]  consumer group
-- ARGV[2]  this consumer
-- ARGV[3]  milliseconds an entry must have been idle; 0 for any
-- ARGV[4]  only entries pending for this consumer; '' for anybody's
-- ARGV[5]  how many to take at most
-- ARGV[6]… ids, in the order in which to take them
--
-- Returns {taken, ghosts, tried}: taken is {id, fields, delivery count} for each entry, ghosts the
-- ids that were cleared, tried how many of the ids were looked at before enough were taken. Ids that
-- are settled, busy or another's are left alone.

local stream, group, consumer, owner = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
local idle, limit = tonumber(ARGV[3]), tonumber(ARGV[5])
-- The server knows whole milliseconds of when an entry was touched. Unless it is one right now, a
-- count of them may hold almost one too many: nothing comes back early.
if idle > 0 and tonumber(redis.call('TIME')[2]) % 1000 > 0 then idle = idle + 1 end

local taken, ghosts, tried = {}, {}, 0
for i = 6, #ARGV do
  if #taken >= limit then break end
  tried = tried + 1
  local id = ARGV[i]
  local pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
  if pending and pending[3] >= idle and (owner == '' or pending[2] == owner) then
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
return {taken, ghosts, tried}
