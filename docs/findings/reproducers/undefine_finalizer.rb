# ObjectSpace.undefine_finalizer(object) also takes away what makes a WeakMap forget the object.
class Value; end
class Other; end

# Runs twice: the first time, Ruby allocates objects of its own for each of these calls.
def count_foreign(keys)
  map = ObjectSpace::WeakMap.new
  keys.each do |key|
    value = Value.new
    map[key] = value
    ObjectSpace.undefine_finalizer(value)
  end
  GC.start
  others = Array.new(100_000) { Other.new }
  foreign = keys.count { |key| Other === map[key] }
  others.clear
  foreign
end

keys = Array.new(1000) { Object.new }
count_foreign(keys.first(1))
foreign = count_foreign(keys)
puts "#{foreign} of #{keys.size} keys lead to another object than the one that was stored"
exit(foreign.zero? ? 0 : 1)
