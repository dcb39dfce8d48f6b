-- is_amount: whether a string is an integer from 1 to 2^53-1 in plain digits.
-- Lua compares NaN to everything as false, so an unchecked "nan" would walk
-- through a cap.
local function is_amount(s)
  return #s <= 16 and string.find(s, '^[1-9]%d*$') ~= nil and tonumber(s) <= 9007199254740991
end
