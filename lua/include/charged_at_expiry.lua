-- charged_at_expiry: what the expiry of a refused overrun has already charged,
-- as a map of unit to digits, or nil. The resolution line of an expired record
-- is: expire, tab, 1 where the amount is withheld, tab, amounts charged.
local function charged_at_expiry(r)
  local charged = string.match(r.resolution, '^expire\t[01]\t(.+)$')
  return charged and parse_amounts(charged) or nil
end
