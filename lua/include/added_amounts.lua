-- added_amounts: what an extend adds per unit, with field total: the amounts
-- line of the record afterwards. Returns an unknown unit as second and true as
-- third value where an amount is not one or the sum would pass 2^53-1. Sums
-- below 2^53 are exact in a double, and %.0f prints them exactly.
local function added_amounts(r, add)
  local extra = {total = r.amounts}
  if add == '-' then
    return extra
  end
  local reserved, units = parse_amounts(r.amounts)
  local given = parse_amounts(add)
  for unit, n in pairs(given) do
    if not reserved[unit] then
      return nil, unit
    elseif not is_amount(n) or tonumber(n) + tonumber(reserved[unit]) > 9007199254740991 then
      return nil, nil, true
    end
    extra[unit] = n
  end
  local out = {}
  for i, unit in ipairs(units) do
    local n = extra[unit] and string.format('%.0f', tonumber(extra[unit]) + tonumber(reserved[unit])) or reserved[unit]
    out[i] = unit .. '=' .. n
  end
  extra.total = table.concat(out, ' ')
  return extra
end
