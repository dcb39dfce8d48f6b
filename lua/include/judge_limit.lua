-- judge_limit: why one limit refuses an amount, or nil. Returns a reason's
-- place in the order of precedence and its name; place 0 means that the caller
-- must ask again. The figures are those of one HMGET: cap, adj, held, spent,
-- withheld, rev, state; opens and closes too where a limit has a period.
local function judge_limit(row, amount, rev, ceiling, now_ms)
  local limit, spent = row[1] + row[2], row[4] + 0
  local used = row[3] + spent + row[5] + amount
  if rev ~= '' and rev ~= row[6] then
    return 0, 'stale'
  elseif row[7] ~= 'open' then
    return row[7] == 'frozen' and 1 or 3, row[7] == 'frozen' and 'frozen' or 'period_closed'
  elseif row[8] and (row[8] ~= '0' and row[8] + 0 > now_ms or row[9] ~= '0' and row[9] + 0 <= now_ms) then
    return 0, 'stale'
  elseif not (spent <= limit) then
    return 4, 'debt'
  elseif amount > 0 and (not (used <= limit) or ceiling ~= '' and not (used <= ceiling + 0)) then
    return 6, 'budget_exceeded'
  end
end
