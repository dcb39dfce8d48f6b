-- parse_record: the execution record as a table, or nil where the text is not
-- one. The format is described in README.md; limits, slots and binding never
-- change after the first write.
local function parse_record(text)
  local state, sec, usec, deadline, till, fingerprint, org, agent, settler, ancestors, amounts, limits, slots, extra,
    resolution, attempts = string.match(text, '^1 ([%l_]+) (%d+) (%d+) (%d+) (%d+)\n(%x*)\n([^\t\n]*)\t([^\t\n]*)\t([^\t\n]*)\t' ..
    '([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
  if not state then
    return nil
  end
  return {
    state = state, sec = sec, usec = usec, deadline = deadline, till = till, fingerprint = fingerprint,
    org = org, agent = agent, settler = settler, ancestors = ancestors, amounts = amounts,
    limits = limits, slots = slots, extra = extra, resolution = resolution, attempts = attempts,
  }
end
