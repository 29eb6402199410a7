-- Moves delays that are due from the sorted set into their stream, in the order in which they are
-- due (rule 6.5). Each is appended first and removed after, one by one: it is parked or in the
-- stream, never neither. Bounded by number and bytes, so that the server is not held up; called
-- again while there is more.
--
-- KEYS[1]  delay set: ZRANGEBYSCORE, ZRANGE, ZREVRANGE, ZREM, PTTL, PEXPIREAT
-- KEYS[2]  stream: XADD
-- KEYS[3]  sorted set for members that cannot be read: ZADD with the same score
-- ARGV[1]  how many members to look at
-- ARGV[2]  how many due members to pass over: those that could not even be set aside
-- ARGV[3]  how long the set outlives its last due member, in milliseconds; '' for ever. A member
--          that was moved to a later time by hand must not expire before it (rule 6.5)
--
-- A member is  u32 length | name | u32 number of headers | (u32 length | name | u32 length |
-- value)* | payload  with big-endian numbers; every one is checked against what is really there.
--
-- Returns {moved, set aside, passed over, more (1 or 0), due of the next one in Unix milliseconds
-- or -1, now in Unix microseconds, error of the first one passed over or ''}; or the error reply
-- of the command that was refused, with the members that it concerned still in the set.

local BYTES = 4194304  -- of members, in one run
local HEADERS = 3900   -- what one command of a script can carry

local function number(raw, at)
  local a, b, c, d = string.byte(raw, at, at + 3)
  if not d then return nil end
  return ((a * 256 + b) * 256 + c) * 256 + d
end

-- The piece that begins with its length at `at`, and the position behind it.
local function piece(raw, at)
  local length = number(raw, at)
  if not length or at + 3 + length > #raw then return nil end
  return string.sub(raw, at + 4, at + 3 + length), at + 4 + length
end

-- The command that appends a member to the stream, or nil for what is no member.
local function command(raw)
  local name, at = piece(raw, 1)
  if not name then return nil end
  local count = number(raw, at)
  at = at + 4
  -- Eight bytes at least for each header: a forged number must not make this spin.
  if not count or count > HEADERS or count * 8 > #raw - at + 1 then return nil end
  local add = {'XADD', KEYS[2], '*', '_payload', ''}
  for _ = 1, count do
    local header, value
    header, at = piece(raw, at)
    if not header then return nil end
    value, at = piece(raw, at)
    if not value then return nil end
    add[#add + 1] = 'h:' .. header
    add[#add + 1] = value
  end
  add[5] = string.sub(raw, at)
  return add
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local limit, passed = tonumber(ARGV[1]), tonumber(ARGV[2])
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', math.floor(now / 1000)),
  'WITHSCORES', 'LIMIT', passed, limit)

local moved, aside, stuck, bytes, why = 0, 0, 0, 0, ''
local more = #due == limit * 2 and 1 or 0
for i = 1, #due, 2 do
  if bytes > BYTES then
    more = 1
    break
  end
  local raw = due[i]
  bytes = bytes + #raw
  local add = command(raw)
  if add then
    local added = redis.pcall(unpack(add))
    if type(added) == 'table' and added.err then return added end
    redis.call('ZREM', KEYS[1], raw)
    moved = moved + 1
  else
    local kept = redis.pcall('ZADD', KEYS[3], due[i + 1], raw)
    if type(kept) == 'table' and kept.err then
      stuck = stuck + 1
      if why == '' then why = kept.err end
    else
      redis.call('ZREM', KEYS[1], raw)
      aside = aside + 1
    end
  end
end

if ARGV[3] ~= '' then
  local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if last[2] then
    local stay = math.ceil(tonumber(last[2])) + tonumber(ARGV[3])
    local left = redis.call('PTTL', KEYS[1])
    if left >= 0 and math.floor(now / 1000) + left < stay then
      redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', stay))
    end
  end
end

local first = passed + stuck
local next_one = redis.call('ZRANGE', KEYS[1], first, first, 'WITHSCORES')
local next_due = -1
if next_one[2] then next_due = math.ceil(math.max(tonumber(next_one[2]), 0)) end
if next_due > 9007199254740000 then next_due = -1 end
return {moved, aside, stuck, more, next_due, now, why}
