#!lua flags=allow-oom
-- undo: writes down that a rebuild takes back one entry of the ledger, which
-- Redis had lost and which was done again.
--
-- Guarantee: only within the rebuild that holds the fence. The counters are not
-- moved here: the rebuild writes them anew from the ledger, with this entry.
--
-- KEYS[1] revoked:{p}   KEYS[2] outbox:{p}
-- ARGV[1] the rebuild's fence   ARGV[2] execution   ARGV[3] moves
-- ARGV[4] members of the detail   ARGV[5] the record of the entry taken back
--
-- Outcomes: taken_over | undone
local revoked_key, outbox_key = KEYS[1], KEYS[2]
local fence, execution, moves, detail, record = unpack(ARGV, 1, 5)

--include now

if redis.call('HGET', revoked_key, 'fence') ~= fence then
  return {'taken_over'}
end
local _, now_text = now()

-- writes
redis.call('XADD', outbox_key, '*', 'e', '1 corrected ' .. now_text .. ' ' .. execution .. '\n' .. moves .. '\n' .. detail .. '\n' .. record)
return {'undone'}
