-- read_limits: the figures of a reservation's limits, missing where the hash
-- is gone. Returns nil where one is gone and so is the epoch: then Redis was
-- emptied, and nothing may be resolved until it is rebuilt.
local function read_limits(limit_keys, epoch_key)
  local rows, missing = {}, false
  for i, key in ipairs(limit_keys) do
    local row = redis.call('HMGET', key, 'cap', 'adj', 'held', 'spent', 'withheld', 'epsilon', 'on_overrun', 'late_window')
    row.missing = not row[1]
    missing = missing or row.missing
    rows[i] = row
  end
  if missing and redis.call('EXISTS', epoch_key) == 0 then
    return nil
  end
  return rows, missing
end
