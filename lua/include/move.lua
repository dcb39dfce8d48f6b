-- move: changes one counter of a limit and returns the term for the entry, so
-- that what is booked and what is written are one thing. Redis does the
-- arithmetic on the caller's own digits; it takes neither "+5" nor "-0". A
-- missing limit is never created; its term is still written.
local function move(limit_key, missing, letter, field, sign, digits)
  if not missing and digits ~= '0' then
    redis.call('HINCRBY', limit_key, field, sign == '-' and '-' .. digits or digits)
  end
  return letter .. sign .. digits
end
