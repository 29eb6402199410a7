-- Removes one consumer if nothing is pending for it, in one step with the check: removing a
-- consumer discards what is pending for it (case MG-02).
--
-- KEYS[1]  stream: XPENDING, XGROUP DELCONSUMER
-- ARGV[1]  consumer group
-- ARGV[2]  the consumer
--
-- Returns 1 if it was removed, 0 if something is pending for it.

if redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])[1] then return 0 end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 1
