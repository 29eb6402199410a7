-- Whose an entry is, for successors that are too large for a script (rule 5.4). fence.lua stands
-- before it.
--
-- KEYS[1]  stream of the original: XPENDING, XRANGE, XINFO
-- ARGV[1]  consumer group          ARGV[4]  its delivery count
-- ARGV[2]  this consumer           ARGV[5]  whether the original is deleted then; see fence.lua
-- ARGV[3]  id of the original      ARGV[6]  '1' if the server is known to have lost the group
--
-- Returns 'ours', 'overtaken', 'forgotten' or 'later', as fence.lua tells; or an error reply.

return fence(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
