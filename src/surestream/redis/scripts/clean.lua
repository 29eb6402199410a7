-- Removes consumers that dead processes left behind, in one step with the check that nothing is
-- pending for them: removing a consumer discards what is (case MG-02).
--
-- KEYS[1]  stream: XINFO CONSUMERS, XGROUP DELCONSUMER
-- ARGV[1]  consumer group
-- ARGV[2]  only names that begin with this
-- ARGV[3]  milliseconds without a sign of life
-- ARGV[4]  this consumer, which stays
--
-- Returns how many were removed.

local prefix, idle = ARGV[2], tonumber(ARGV[3])
local removed = 0
for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for i = 1, #info - 1, 2 do consumer[info[i]] = info[i + 1] end
  if consumer.name ~= ARGV[4] and string.sub(consumer.name, 1, #prefix) == prefix
    and consumer.pending == 0 and consumer.idle > idle then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
    removed = removed + 1
  end
end
return removed
