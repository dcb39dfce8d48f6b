-- judge_missing: what a limit without a hash means: Redis was emptied, the
-- limit vanished, or it is not made yet and the caller must ask again.
local function judge_missing(limit_key, opened_key, epoch_key)
  if redis.call('EXISTS', epoch_key) == 0 then
    return 0, 'unavailable'
  elseif redis.call('HEXISTS', opened_key, string.match(limit_key, '}(.*)$')) == 0 then
    return 0, 'stale'
  end
  return 2, 'pool_missing'
end
