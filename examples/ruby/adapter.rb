# CRuby behind gcfuzz's protocol (docs/protocol.md).
#
#   gcfuzz run --command "ruby examples/ruby/adapter.rb"
#   gcfuzz run --command "ruby examples/ruby/adapter.rb --as-documented"
#
# With `ruby --disable=gems` there are fewer objects, and collections are faster.
#
# CRuby does not sample its allocations. It collects when it likes, and takes what looks like an
# address on its stack for a reference, so a dead object may linger. The first contract states what
# CRuby 3.1 does, the second one what its documentation promises. They differ in one action: see
# `actions_of`.

require "weakref"

AS_DOCUMENTED = ARGV.include?("--as-documented")
NODE, ARRAY, STRING, WEAKREF = 1, 2, 3, 4
OBJECT_BYTES_MAX = 4096
NUMBER_BYTES, SHOWN_BYTES = 8, 16
FIELDS = [:@first, :@second].freeze

SETTINGS = [
  # 0: objects stay. 1: a full collection compacts. 2: each major collection may.
  { name: "compact", default: 0, range: { minimum: 0, maximum: 2 }, choices: [0] * 6 + [1, 2] },
  # 1: each allocation collects, which is slow.
  { name: "stress", default: 0, range: { minimum: 0, maximum: 1 }, choices: [0] * 63 + [1] },
  # 0: a weak reference is a WeakRef. 1: it is a key of an ObjectSpace::WeakMap.
  { name: "weakmap", default: 0, range: { minimum: 0, maximum: 1 } },
].freeze

class Node
  attr_accessor :number

  def initialize(number)
    @number, @first, @second = number, nil, nil
  end

  def [](field) = instance_variable_get(FIELDS[field])
  def []=(field, value)
    instance_variable_set(FIELDS[field], value)
  end
  def references = [@first, @second]
end

# What leads to its object by a WeakRef, or as a key of this map.
class Weak
  MAP = ObjectSpace::WeakMap.new

  def initialize(target, is_key)
    @ref = is_key ? nil : WeakRef.new(target)
    MAP[self] = target if is_key
  end

  def target
    @ref ? @ref.__getobj__ : MAP[self]
  rescue WeakRef::RefError
    nil
  end
end

# The finalizers that CRuby has called, until run_finalizers. Their procs must not refer to objects.
module Pending
  @numbers = []
  @trace = 0

  def self.start
    @trace += 1
    @numbers.clear
  end

  def self.finalizer(number)
    trace = @trace
    proc { @numbers << number if trace == @trace } # An object of an earlier trace may die in this one.
  end

  def self.take = @numbers.slice!(0..)
end

# The bytes of the string with that number: docs/protocol.md, contents.
BYTES = Array.new(2 * 65_536) { |place| (((place & 65_535) * 2_654_435_761) & 0xffff_ffff) >> 24 }
             .pack("C*").freeze

def bytes_of(number, length)
  others = BYTES.byteslice((number * 40_503 + NUMBER_BYTES) & 65_535, [length - NUMBER_BYTES, 0].max)
  [number].pack("Q<").byteslice(0, [length, NUMBER_BYTES].min) + others
end

# The number in a string, and what is wrong with the bytes after it.
def row_of_contents(string)
  number = string.byteslice(0, NUMBER_BYTES).ljust(NUMBER_BYTES, "\0").unpack1("Q<")
  expected = bytes_of(number, string.bytesize)
  return [number] if string == expected

  wrong = (0...string.bytesize).find { |offset| string.getbyte(offset) != expected.getbyte(offset) }
  [number, wrong, *string.byteslice(wrong, SHOWN_BYTES).bytes]
end

def kind_of(object)
  case object
  when Node then [NODE, object.number]
  when Array then [ARRAY, object.size]
  when String then [STRING, object.bytesize]
  when Weak then [WEAKREF, 0]
  else raise TypeError, "a reference leads to #{object.class}"
  end
end

def references_of(object)
  case object
  when Node then object.references
  when Array then object
  else []
  end
end

# Overwrites what earlier calls have left on the stack, where the collector looks for references.
def clear_stack(depth)
  a = b = c = d = e = f = nil
  clear_stack(depth - 1) if depth.positive?
  a || b || c || d || e || f
end

class Adapter
  def initialize
    @roots = []
    start({})
  end

  def start(config)
    @roots.clear
    @strings = 0
    Pending.start
    @compact = config["compact"] || 0
    @is_key = config["weakmap"] == 1
    GC.auto_compact = @compact == 2
    @is_stressed = config["stress"] == 1
    look_for_collections
  end

  # How many collections have begun; one that goes on counts as another one.
  def look_for_collections
    count, is_marking = GC.count, GC.latest_gc_info(:state) == :marking
    collections = count - (@count || count)
    collections = 1 if collections.zero? && @is_marking
    @count, @is_marking = count, is_marking
    collections
  end

  def perform(action)
    name = action.delete("do")
    answer = send("do_#{name}", **action.transform_keys(&:to_sym)) || {}
    collections = look_for_collections
    return answer if collections.zero?

    answer[:minors] = collections
    answer[:graph] ||= graph
    answer
  end

  # Stress ends with the allocation: each of this program's own would collect, too.
  def allocate
    GC.stress = @is_stressed
    object = yield
    GC.stress = false
    @roots << object
    object
  end

  def do_allocate_node(number:, nonmovable: false)
    allocate { Node.new(number) }
    nil
  end

  def do_allocate_array(length:, nonmovable: false)
    allocate { Array.new(length) }
    nil
  end

  def do_allocate_string(length:, nonmovable: false)
    number = @strings += 1
    string = allocate { "\0".b * length }
    string[0, length] = bytes_of(number, length)
    nil
  end

  def do_allocate_weakref(root:)
    allocate { Weak.new(@roots[root], @is_key) }
    nil
  end

  def do_free(root:)
    @roots.delete_at(root)
    nil
  end

  def do_read(root:, field:)
    found = @roots[root][field]
    return if found.nil?

    @roots << found
    { value: @roots.index { |each| each.equal?(found) } }
  end

  def do_read_number(root:) = { value: kind_of(@roots[root])[1] }

  def do_read_weakref(root:, keep: false)
    found = @roots[root].target
    @roots << (found.nil? ? @roots[root] : found) if keep
    { alive: !found.nil? }
  end

  def do_write(root:, field:, value:)
    @roots[root][field] = value && @roots[value]
    nil
  end

  def do_write_number(root:, number:)
    @roots[root].number = number
    nil
  end

  def do_copy_array(source:, dest:, source_start:, dest_start:, length:)
    @roots[dest][dest_start, length] = @roots[source][source_start, length]
    nil
  end

  def do_move_array(root:, source_start:, dest_start:, length:)
    do_copy_array(source: root, dest: root, source_start:, dest_start:, length:)
  end

  def do_fill_array(root:, value:)
    @roots[root].fill(value && @roots[value])
    nil
  end

  def do_take_identity(root:) = { identity: @roots[root].object_id }

  def do_register_finalizer(root:, number:)
    ObjectSpace.define_finalizer(@roots[root], Pending.finalizer(number))
    nil
  end

  def do_unregister_finalizer(root:)
    ObjectSpace.undefine_finalizer(@roots[root])
    nil
  end

  def do_run_finalizers(keep: false) = { finalized: Pending.take }

  def do_collect_minor
    clear_stack(100)
    GC.start(full_mark: false)
    nil
  end

  def do_collect_full
    clear_stack(100)
    GC.start
    GC.compact if @compact == 1
    nil
  end

  def do_check_heap = { graph: }

  def do_check_contents
    places = reachable
    { contents: places.keys.grep(String).map { |string| row_of_contents(string) } }
  ensure
    places&.clear
  end

  # A row for each reachable object.
  def graph
    places = reachable
    places.keys.map { |object| [*kind_of(object), *fields_of(object, places)] }
  ensure
    # A word on the stack may keep this, and with it what the mutator drops.
    places&.clear
  end

  # The reachable objects with their rows, breadth first.
  def reachable
    places = {}.compare_by_identity
    queue = @roots.dup
    until queue.empty?
      object = queue.shift
      next if places.key?(object)

      places[object] = places.size
      queue.concat(references_of(object).compact)
    end
    places
  end

  def fields_of(object, places)
    references_of(object).each_with_index.flat_map do |found, field|
      found.nil? ? [] : [field, places.fetch(found)]
    end
  end
end

# What both contracts promise. CRuby has no sampler, so there is no action of sampling. The size of
# an object is not stated: short strings and arrays lie in their slots.
ACTIONS = %w[
  allocate_node allocate_string allocate_array allocate_weakref free read read_number read_weakref
  write write_number copy_array fill_array move_array take_identity register_finalizer
  run_finalizers collect_minor collect_full check_heap check_contents
].freeze
LAYOUT = {
  kinds: {
    node: { type_index: NODE, fixed_bytes: 40 },
    array: { type_index: ARRAY, fixed_bytes: 40, item_bytes: 8 },
    string: { type_index: STRING, fixed_bytes: 40, item_bytes: 1 },
    weakref: { type_index: WEAKREF, fixed_bytes: 40 },
  },
  large_object_bytes: 1, word_bytes: 1, object_bytes_max: OBJECT_BYTES_MAX,
}.freeze

# "Removes all finalizers for obj": not the one by which a WeakMap or a WeakRef forgets it. CRuby 3.1
# removes that one, too, and the weak reference then leads to whatever takes the object's place.
def actions_of = AS_DOCUMENTED ? [*ACTIONS, "unregister_finalizer"] : ACTIONS

def contract
  {
    nursery_bytes: 1024, # a size around which allocations are interesting
    layout: LAYOUT,
    actions: actions_of,
    observes: %w[minors value alive identity graph contents finalized],
    settings: SETTINGS,
    contents: "bytes",
    # "to be called after obj was destroyed", any number of them, in no order.
    finalizers: { within: 1, objects: "dead" },
    survivor_bytes: 0, # An object dies young or when it is old: that is not promised.
    dead_within: 1,
    weak_reads: "kept",
    version: "CRuby #{RUBY_VERSION}",
  }
end

# The pairs of a line. Actions and headers are flat: no string has a quote in it. The json library of
# CRuby 3.1 crashed under compaction.
def pairs_of(line)
  line.scan(/"(\w+)": ("\w*"|-?\d+|true|false|null)/).to_h do |key, value|
    [key, value.start_with?('"') ? value[1..-2] : CONSTANTS.fetch(value) { Integer(value, 10) }]
  end
end
CONSTANTS = { "true" => true, "false" => false, "null" => nil }.freeze

def json(value)
  case value
  when Hash then "{#{value.map { |key, each| "\"#{key}\": #{json(each)}" }.join(', ')}}"
  when Array then "[#{value.map { |each| json(each) }.join(', ')}]"
  when String then "\"#{value.gsub(/[^ -~]|["\\]/, '?')}\""
  when nil then "null"
  else value.to_s
  end
end

def answer(adapter, line)
  request = pairs_of(line)
  return adapter.perform(request) unless request.key?("gcfuzz")

  adapter.start(request)
  { contract: }
rescue StandardError => e
  { error: "#{e.class}: #{e.message}" }
end

adapter = Adapter.new
$stdout.sync = true
$stdin.each_line { |line| $stdout.puts(json(answer(adapter, line))) }
