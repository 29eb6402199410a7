-- Acknowledges entries and deletes them from the stream where no other group could still want them
-- (case MG-01). In one step: a group that appears meanwhile loses nothing. fence.lua stands before it.
-- Sent again after a lost reply it does nothing a second time.
--
-- KEYS[1]  stream: XACK, XINFO GROUPS, XDEL
-- ARGV[1]  consumer group
-- ARGV[2]  how many of the ids are copies of our own, which are deleted in any case (rule 4.7)
-- ARGV[3]… ids, those copies first
--
-- Returns the names of the other groups; none: everything was deleted. A text: why nothing could be
-- deleted; everything is acknowledged all the same.

local stream, group, copies = KEYS[1], ARGV[1], tonumber(ARGV[2])
redis.call('XACK', stream, group, unpack(ARGV, 3))
local others, why = other_groups(stream, group)
local last = #ARGV
if why or #others > 0 then last = 2 + copies end
if last >= 3 then
  local deleted = redis.pcall('XDEL', stream, unpack(ARGV, 3, last))
  if type(deleted) == 'table' then why = deleted.err end
end
return why or others
