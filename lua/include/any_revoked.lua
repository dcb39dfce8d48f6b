-- any_revoked: whether the holder of a record, the caller (a named settler may
-- be of another branch), or an ancestor of either has ended.
local function any_revoked(revoked_key, r, callers, now_ms)
  local agents = {r.agent, unpack(callers)}
  for agent in string.gmatch(r.ancestors, '[^,]+') do
    agents[#agents + 1] = agent
  end
  for _, at in ipairs(redis.call('HMGET', revoked_key, unpack(agents))) do
    if at and at + 0 <= now_ms then
      return true
    end
  end
  return false
end
