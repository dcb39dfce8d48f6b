#!lua
-- overdue: the executions of one holder whose deadline has passed. Where none
-- has, the holder is put back to its next deadline, or leaves the index.
--
-- Guarantee: expiring:{p} never says later than the earliest deadline of a
-- holder; it may say earlier, because settle, release and extend leave it.
--
-- KEYS[1] expiring:{p}   KEYS[2] live:{p} seg(org) seg(holder)
-- ARGV[1] how many at most
--
-- Outcomes: due, executions, oldest first | none
local expiring_key, live_key, most = KEYS[1], KEYS[2], ARGV[1]

--include now

local now_ms = now()
local due = redis.call('ZRANGEBYSCORE', live_key, '-inf', now_ms, 'LIMIT', 0, most)
if #due > 0 then
  return {'due', unpack(due)}
end
local next_one = redis.call('ZRANGE', live_key, 0, 0, 'WITHSCORES')

-- writes
if next_one[1] then
  redis.call('ZADD', expiring_key, next_one[2], live_key)
else
  redis.call('ZREM', expiring_key, live_key)
end
return {'none'}
