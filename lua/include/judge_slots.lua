-- judge_slots: the first slot that is full, and "holders, first deadline" of
-- it. Holders past their deadline do not count: slots heal by themselves.
local function judge_slots(slot_keys, maxima, now_ms)
  for i, key in ipairs(slot_keys) do
    local holders = redis.call('ZCOUNT', key, '(' .. now_ms, '+inf')
    if holders >= tonumber(maxima[i]) then
      local first = redis.call('ZRANGEBYSCORE', key, '(' .. now_ms, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      return i, holders .. ' ' .. (first[2] or now_ms) .. ' ' .. now_ms
    end
  end
end
