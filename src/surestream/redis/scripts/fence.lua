-- The beginning of every script that stores a successor (replace, park) or deletes what is settled;
-- rules 5.1 and 5.4. It is put before their text; by itself it does nothing.
--
-- fence(stream, group, consumer, id, count, marked, lost) says whose the entry `id` is:
--   'ours'       pending for this consumer, delivered `count` times: the caller may go on
--   'overtaken'  settled, or held by another: the caller must do nothing
--   'forgotten'  the server has lost it (trimmed, flushed, stream or group destroyed): the caller
--                may store the successor from memory, and there is nothing to acknowledge
--   'later'      the group is gone and the entry is still there: it will be delivered again
--   a table      an error reply, to be returned as it is
--
-- stream    key of the stream the entry was read from
-- count     the delivery count this consumer was given
-- marked    '1' for a copy of our own, which is deleted once it is settled (rule 4.7); '2' for any
--           other entry that is (delete_acknowledged); '0' for one that stays
-- lost      '1' where the caller knows that the server lost the group since the entry was read

-- Whether entry id a is lower than b. Ids are two numbers of up to 20 digits, too long for Lua's.
local function lower(a, b)
  local a1, a2 = string.match(a, '^(%d+)-(%d+)$')
  local b1, b2 = string.match(b, '^(%d+)-(%d+)$')
  if not a1 or not b1 then return false end
  if #a1 ~= #b1 then return #a1 < #b1 end
  if a1 ~= b1 then return a1 < b1 end
  if #a2 ~= #b2 then return #a2 < #b2 end
  return a2 < b2
end

-- A marked copy that is gone was deleted by whoever settled it, unless nothing that high was ever
-- deleted from this stream (Redis 7 and later remember that).
local function was_deleted(stream, id)
  local info = redis.pcall('XINFO', 'STREAM', stream)
  if info.err then return false end
  for i = 1, #info - 1, 2 do
    if info[i] == 'max-deleted-entry-id' then return not lower(info[i + 1], id) end
  end
  return false
end

local function fence(stream, group, consumer, id, count, marked, lost)
  local pending = redis.pcall('XPENDING', stream, group, id, id, 1)
  local no_group = false
  if pending.err then
    if string.find(tostring(pending.err), 'WRONGTYPE', 1, true) then return 'forgotten' end
    if not string.find(tostring(pending.err), 'NOGROUP', 1, true) then return pending end
    no_group = true
  elseif pending[1] then
    if pending[1][2] == consumer and pending[1][4] == tonumber(count) then return 'ours' end
    return 'overtaken'
  end
  local entry = redis.pcall('XRANGE', stream, id, id)
  if entry.err then return entry end
  if #entry > 0 then
    if no_group then return 'later' end
    return 'overtaken'
  end
  if no_group or marked == '0' or lost == '1' then return 'forgotten' end
  if was_deleted(stream, id) then return 'overtaken' end
  return 'forgotten'
end

-- The names of the groups of a stream besides `group`, and the error where that cannot be told.
local function other_groups(stream, group)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if groups.err then
    if string.find(tostring(groups.err), 'no such key', 1, true) then return {} end
    return {}, groups.err
  end
  local others = {}
  for _, info in ipairs(groups) do
    for i = 1, #info - 1, 2 do
      if info[i] == 'name' and info[i + 1] ~= group then others[#others + 1] = info[i + 1] end
    end
  end
  return others
end

-- Deletes an entry that was just acknowledged. Not vital: an access list may forbid it, and the
-- entry is settled already.
local function remove(stream, group, id, marked)
  if marked == '0' then return end
  if marked == '2' then
    local others, why = other_groups(stream, group)
    if why or #others > 0 then return end
  end
  redis.pcall('XDEL', stream, id)
end

