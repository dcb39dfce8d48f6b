-- may_resolve: whether a caller may settle, release or extend a record: the
-- holder, one of its immutable ancestors, the settler it named, an operator.
local function may_resolve(r, org, caller, operator)
  if r.org ~= org then
    return false
  end
  if operator == '1' or caller == r.agent or caller == r.settler then
    return true
  end
  return string.find(',' .. r.ancestors .. ',', ',' .. caller .. ',', 1, true) ~= nil
end
