-- Creates the group that the server lost, and leaves a trace of it in the same step: a consumer that
-- never reads. Processes that missed the loss see by it that what they hold is no longer pending
-- (rule 6.6).
--
-- KEYS[1]  stream: XGROUP CREATE, XGROUP CREATECONSUMER
-- ARGV[1]  consumer group
-- ARGV[2]  the last id that it counts as delivered
-- ARGV[3]  how the trace's name begins
--
-- Returns the trace's name, or the error of XGROUP CREATE.

local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], ARGV[2], 'MKSTREAM')
if made.err then return made end
local time = redis.call('TIME')
local trace = ARGV[3] .. time[1] .. '.' .. time[2]
-- Not vital: an access list may forbid it.
redis.pcall('XGROUP', 'CREATECONSUMER', KEYS[1], ARGV[1], trace)
return trace
