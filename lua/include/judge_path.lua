-- judge_path: why a path of limits refuses amounts, first by precedence, then
-- by the order of the path. Returns reason, index of the limit, the figures
-- read, and true where the caller must ask again instead. Needs judge_limit
-- and judge_missing.
local function judge_path(limit_keys, amounts, revs, opened_key, epoch_key, now_ms)
  local rank, reason, index, rows = 99, nil, 0, {}
  for i, key in ipairs(limit_keys) do
    local row = redis.call('HMGET', key, 'cap', 'adj', 'held', 'spent', 'withheld', 'rev', 'state', 'opens', 'closes')
    local place, why
    if row[1] then
      place, why = judge_limit(row, amounts[i] + 0, revs[i], '', now_ms)
    else
      place, why = judge_missing(key, opened_key, epoch_key)
    end
    if place == 0 then
      return why, i, rows, true
    elseif place and place < rank then
      rank, reason, index = place, why, i
    end
    rows[i] = row
  end
  return reason, index, rows, false
end
