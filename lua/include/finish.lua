-- finish: writes a record that is resolved, ends its place among the live and
-- its slots, begins or ends its late window, and appends the entry, all of one
-- transition.
local function finish(keys, r, entry)
  local text = format_record(r)
  redis.call('SET', keys.record, text, 'PX', entry.keep_ms)
  if entry.next_deadline then
    redis.call('ZADD', keys.lapsing, entry.next_deadline, entry.execution)
  else
    redis.call('ZREM', keys.lapsing, entry.execution)
  end
  redis.call('ZREM', keys.live, entry.execution)
  for _, slot in ipairs(keys.slots) do
    redis.call('ZREM', slot, entry.execution)
  end
  redis.call('XADD', keys.outbox, '*', 'e', '1 ' .. entry.kind .. ' ' .. entry.at .. ' ' .. entry.execution .. '\n' ..
    table.concat(entry.moves, ' ') .. '\n' .. entry.detail .. '\n' .. text)
  return text
end
