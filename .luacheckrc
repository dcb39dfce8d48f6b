-- The scripts run inside Redis 7: Lua 5.1 with these globals and no others.
std = {
  read_globals = {
    "redis", "cjson", "KEYS", "ARGV",
    "error", "ipairs", "next", "pairs", "pcall", "select", "tonumber", "tostring", "type", "unpack",
    math = { fields = { "floor", "huge", "max", "min" } },
    string = { fields = { "byte", "char", "find", "format", "gmatch", "gsub", "len", "lower", "match", "rep", "reverse", "sub", "upper" } },
    table = { fields = { "concat", "insert", "remove", "sort" } },
  },
}
max_line_length = 150

-- not (a <= b) is true for NaN and a > b is not: comparisons of money are
-- written so that nonsense refuses.
ignore = { "581" }

-- An include defines one local function for the scripts that name it.
files["lua/include"] = { ignore = { "211" } }

-- What --include directives bring in; a new include is listed here.
files["lua"] = { read_globals = {
  "added_amounts", "any_revoked", "booked_amounts", "charged_at_expiry", "ended", "figures", "figures_of",
  "find_record", "finish", "format_amounts", "format_record", "is_amount", "is_before",
  "judge_limit", "judge_missing", "judge_path", "judge_slots", "last_id", "may_resolve", "move",
  "now", "overrun_fits", "parse_amounts", "parse_record", "read_limits", "refused_amounts",
} }
