-- ended: whether one of the agents of an HMGET of revoked:{p}, after the fence,
-- has ended: the field is the time it ends at, which for an agent with a time
-- to live is written when it is registered.
local function ended(gone, now_ms)
  for i = 2, #gone do
    if gone[i] and gone[i] + 0 <= now_ms then
      return true
    end
  end
  return false
end
