-- format_record: the text of a record table; the inverse of parse_record.
local function format_record(r)
  return table.concat({
    '1 ' .. r.state .. ' ' .. r.sec .. ' ' .. r.usec .. ' ' .. r.deadline .. ' ' .. r.till, r.fingerprint,
    r.org .. '\t' .. r.agent .. '\t' .. r.settler .. '\t' .. r.ancestors, r.amounts, r.limits, r.slots, r.extra,
    r.resolution, r.attempts,
  }, '\n')
end
