#!lua flags=no-writes
-- snapshot: the figures of limits and the outbox's last id, read in one step:
-- a consistent cut. Everything up to that id is in the figures, nothing after.
--
-- KEYS[1] outbox:{p}   KEYS[2..] at most 256 limits
--
-- Outcomes: ok, last outbox id, then per limit cap, adj, held, spent, withheld;
-- all '' where the limit's hash is gone
local outbox_key = KEYS[1]
local limit_keys = {unpack(KEYS, 2)}

-- last_id: the last id a stream has given out, also where the entry is gone;
-- 0-0 where there is no stream.
local function last_id(stream_key)
  if redis.call('EXISTS', stream_key) == 0 then
    return '0-0'
  end
  local info = redis.call('XINFO', 'STREAM', stream_key)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      return info[i + 1]
    end
  end
  return '0-0'
end

local reply = {'ok', last_id(outbox_key)}
for _, key in ipairs(limit_keys) do
  local row = redis.call('HMGET', key, 'cap', 'adj', 'held', 'spent', 'withheld')
  for j = 1, 5 do
    reply[#reply + 1] = row[j] or ''
  end
end
return reply
