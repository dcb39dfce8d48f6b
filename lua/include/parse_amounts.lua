-- parse_amounts: "unit=n unit=n" as a map of unit to the digits as given, and
-- the units in the order of the text.
local function parse_amounts(text)
  local by_unit, units = {}, {}
  for unit, n in string.gmatch(text, '([^ =]+)=(%d+)') do
    by_unit[unit] = n
    units[#units + 1] = unit
  end
  return by_unit, units
end
