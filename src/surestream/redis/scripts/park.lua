-- Stores a delay in the sorted set and then acknowledges the original (rules 5.1, 5.4 and 6.5).
-- fence.lua stands before it. The due time is reckoned by this server's clock alone, rounded up to
-- milliseconds: the hosts' clocks do not matter. The set's expiry never comes before its last
-- member is due.
--
-- KEYS[1]  stream of the original: XPENDING, XRANGE, XINFO, XACK, and XDEL for what is deleted then
-- KEYS[2]  delay set: ZADD, ZREVRANGE, PEXPIREAT or PERSIST
-- ARGV[1]  consumer group          ARGV[5]  whether the original is deleted then; see fence.lua
-- ARGV[2]  this consumer           ARGV[6]  '1' if the server is known to have lost the group
-- ARGV[3]  id of the original      ARGV[7]  the delay in microseconds
-- ARGV[4]  its delivery count      ARGV[8]  how long the set outlives its last due member, in
--                                           milliseconds; '' for ever
--                                  ARGV[9]  the member
--
-- Returns {1, due, now}: stored, due in Unix milliseconds, now in Unix microseconds; {0} overtaken,
-- nothing done; {-1} the group is gone, nothing done; or the error of the first command that was
-- refused, with nothing acknowledged.

local state = fence(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
if type(state) == 'table' then return state end
if state == 'overtaken' then return {0} end
if state == 'later' then return {-1} end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local due = math.ceil((now + tonumber(ARGV[7])) / 1000)
local added = redis.pcall('ZADD', KEYS[2], string.format('%.0f', due), ARGV[9])
if type(added) == 'table' and added.err then return added end

if ARGV[8] == '' then
  -- An expiry left from an earlier declaration would take the members with it.
  redis.call('PERSIST', KEYS[2])
else
  local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  local stay = math.ceil(tonumber(last[2])) + tonumber(ARGV[8])
  redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', stay))
end

if state == 'ours' then
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
  remove(KEYS[1], ARGV[1], ARGV[3], ARGV[5])
end
return {1, due, now}
