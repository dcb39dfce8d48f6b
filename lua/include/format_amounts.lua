-- format_amounts: a map of unit to digits as "unit=n unit=n" in a given order.
local function format_amounts(by_unit, units)
  local out = {}
  for i, unit in ipairs(units) do
    out[i] = unit .. '=' .. by_unit[unit]
  end
  return table.concat(out, ' ')
end
