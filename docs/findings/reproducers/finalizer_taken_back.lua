-- An object whose finalizer was taken back is freed by the second full collection, not the first.
local KILOBYTES = 1000

local function kept_after(collections, is_marked)
  collectgarbage()
  local before = collectgarbage("count")
  do
    local object = {string.rep("x", KILOBYTES * 1024)}
    if is_marked then
      setmetatable(object, {__gc = function() end})
    end
    setmetatable(object, nil)
  end
  for _ = 1, collections do
    collectgarbage()
  end
  return collectgarbage("count") - before >= KILOBYTES
end

assert(not kept_after(1, false) and not kept_after(2, true))
local is_kept = kept_after(1, true)
print("after a full collection " .. (is_kept and "1000" or "0") .. " KB are kept without a finalizer")
os.exit(is_kept and 1 or 0)
