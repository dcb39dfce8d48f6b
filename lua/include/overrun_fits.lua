-- overrun_fits: whether every limit of an overrun unit takes what was booked:
-- within its epsilon and its cap, or because it charges overruns. A missing
-- limit has nothing to say.
local function overrun_fits(rows, limit_units, reserved, booked)
  for i, row in ipairs(rows) do
    local unit = limit_units[i]
    local over = tonumber(booked[unit]) - tonumber(reserved[unit])
    if over > 0 and not row.missing and row[7] ~= 'charge' then
      local used = tonumber(row[3]) + tonumber(row[4]) + tonumber(row[5]) + over
      if not (over <= tonumber(row[6])) or not (used <= tonumber(row[1]) + tonumber(row[2])) then
        return false
      end
    end
  end
  return true
end
