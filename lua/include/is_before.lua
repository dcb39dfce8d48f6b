-- is_before: whether a stream id is lower than another.
local function is_before(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  if a_ms == b_ms then
    return tonumber(a_seq) < tonumber(b_seq)
  end
  return tonumber(a_ms) < tonumber(b_ms)
end
