-- figures: the counters of one HMGET as one word group of a reply.
local function figures(row)
  if not row or not row[1] then
    return '- - - - -'
  end
  return row[1] .. ' ' .. row[2] .. ' ' .. row[3] .. ' ' .. row[4] .. ' ' .. row[5]
end
