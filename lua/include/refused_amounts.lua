-- refused_amounts: what an expiry charges after a refused overrun: per unit
-- the smaller of the reservation and the last refused cost; nil where no
-- overrun was refused. An attempt line is: key id, fingerprint, verb, amounts.
local function refused_amounts(r, reserved, units)
  local last = nil
  for verb, amounts in string.gmatch(r.attempts, '%x+\t%x+\t(%l+)\t([^\t\n]*)') do
    if verb == 'settle' then
      last = amounts
    end
  end
  if not last then
    return nil
  end
  local charged, refused = {}, parse_amounts(last)
  for _, unit in ipairs(units) do
    local smaller = tonumber(refused[unit]) < tonumber(reserved[unit])
    charged[unit] = smaller and refused[unit] or reserved[unit]
  end
  return charged
end
