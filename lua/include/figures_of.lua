-- figures_of: the counters of several limits as one text. Needs figures.
local function figures_of(rows)
  local out = {}
  for i, row in ipairs(rows) do
    out[i] = figures(row)
  end
  return table.concat(out, ' ')
end
