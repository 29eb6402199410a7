-- Stores a successor (a copy, a dead letter, a quarantined entry) and then acknowledges the
-- original, in this order: a script does not roll back (rules 5.1 and 5.4). fence.lua stands
-- before it. Sent again after a lost reply it does nothing a second time.
--
-- KEYS[1]  stream of the original: XPENDING, XRANGE, XINFO, XACK, and XDEL for what is deleted then
-- KEYS[2]  stream of the successor, may be the same: XADD
-- ARGV[1]  consumer group          ARGV[5]  whether the original is deleted then; see fence.lua
-- ARGV[2]  this consumer           ARGV[6]  '1' if the server is known to have lost the group
-- ARGV[3]  id of the original      ARGV[7]  trim the target to about so many entries; '' for not
-- ARGV[4]  its delivery count      ARGV[8]… fields of the successor: name, value, …
--
-- Returns 1 stored; 0 overtaken, nothing done; -1 the group is gone, nothing done; or the error of
-- the first command that was refused, with nothing acknowledged.

local state = fence(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
if type(state) == 'table' then return state end
if state == 'overtaken' then return 0 end
if state == 'later' then return -1 end

local add = {'XADD', KEYS[2]}
if ARGV[7] ~= '' then
  add[3], add[4], add[5] = 'MAXLEN', '~', ARGV[7]
end
add[#add + 1] = '*'
for i = 8, #ARGV do add[#add + 1] = ARGV[i] end
local stored = redis.pcall(unpack(add))
if type(stored) == 'table' and stored.err then return stored end

if state == 'ours' then
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
  remove(KEYS[1], ARGV[1], ARGV[3], ARGV[5])
end
return 1
