-- booked_amounts: what a settle books for each reserved unit, by the table of
-- the contract: the actual where given; nothing where a failed call was never
-- dispatched; else the whole reservation, its cost unknown. An actual that is
-- not final never books less than was reserved. Returns the unknown unit of an
-- actual as third value.
local function booked_amounts(reserved, units, actual, status, dispatched, final)
  local given, booked, unknown = {}, {}, false
  if actual ~= '-' then
    given = parse_amounts(actual)
    for unit in pairs(given) do
      if not reserved[unit] then
        return nil, false, unit
      end
    end
  end
  for _, unit in ipairs(units) do
    local n = given[unit]
    if not n then
      local nothing = actual == '-' and status == 'failure' and dispatched == 'false'
      n = nothing and '0' or reserved[unit]
      unknown = unknown or not nothing
    end
    if final == '0' and actual ~= '-' then
      unknown = true
      if tonumber(n) < tonumber(reserved[unit]) then
        n = reserved[unit]
      end
    end
    booked[unit] = n
  end
  return booked, unknown
end
