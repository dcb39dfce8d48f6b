-- last_id: the last id a stream has given out, also where the entry is gone;
-- 0-0 where there is no stream.
local function last_id(stream_key)
  if redis.call('EXISTS', stream_key) == 0 then
    return '0-0'
  end
  local info = redis.call('XINFO', 'STREAM', stream_key)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      return info[i + 1]
    end
  end
  return '0-0'
end
