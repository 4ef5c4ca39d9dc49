/* The part of incminimark-jit that the collector must not see: the steps of a batch.

   compiled.py asks for the operands of each step, and repeats the steps until they are machine code.
   Invariants: only the last round is answered, and it fails if the JIT has traced in it. The first
   enums, STEPS_MAX and COPIED_MAX are those of compiled.py. */

enum { OPERATION, FIRST, SECOND, PLACE, OBSERVED, GUARD, HELD, LOADS, LOADED_ROOT, OPERANDS };
enum { NOT_OBSERVED, IS_OBSERVED, RAISES };
enum { FORGET_HELD = -1, KEEP_HELD = -2, ALL_OPTIMIZATIONS = 2, STEPS_MAX = 4096, COPIED_MAX = 256 };
/* Rounds until a loop is machine code, and until the bridge behind each failing guard is. */
enum { COMPILED_ROUNDS = 2, WARM_UP_ROUNDS_MAX = 16 + 6 * GUARDS_MAX };
/* The characters of compiled.py's TEXT repeat after this number. */
enum { COPIED_CHARACTERS = 251 };

static struct step {
    long action, fields[FIELDS_END], operands[OPERANDS];
    /* Each member of a group is a step: the size of its group, or 0, and how many precede it. */
    long members, before;
    /* The next step must not begin before this one is observed. */
    int cannot_wait;
} *steps;
static long batch_count, steps_count, answered_count, told, rounds, compiled_rounds, failing_guards;
static const char *objected;
/* Whether the JIT has traced in this round. */
static int is_traced, is_last_round, has_pinned;

#define ORDERED_ONLY (settings[OPTIMIZATIONS] != ALL_OPTIMIZATIONS)
#define IS_INTERPRETED (settings[OPTIMIZATIONS] == 0)

/* Whether objects may have finalizers and destructors. */
long gcfuzz_has_finalizers(void)
{
    return getenv("GCFUZZ_FINALIZERS") != NULL;
}

static const char *compiled_contract(void)
{
    static const char *const contracts[][3] = {
        {INTERPRETED, CONTRACT, CONTRACT_OF_HEAP},
        {INTERPRETED_AS_DOCUMENTED, CONTRACT_AS_DOCUMENTED, CONTRACT_OF_HEAP_AS_DOCUMENTED},
        {INTERPRETED_WITH_FINALIZERS, CONTRACT_WITH_FINALIZERS, CONTRACT_OF_HEAP},
    };
    long optimizations = settings[OPTIMIZATIONS];
    return contracts[gcfuzz_has_finalizers() ? 2 : getenv("GCFUZZ_AS_DOCUMENTED") != NULL]
                    [optimizations == 0 || optimizations == ALL_OPTIMIZATIONS ? optimizations : 1];
}

/* Whether the next step is of the same group. */
static int has_more(const struct step *step)
{
    return step->before + 1 < step->members;
}

static void clear_fields(void)
{
    action = -1;
    for (long field = 0; field < FIELDS_END; field++)
        fields[field] = UNSET;
}

static struct step *add_step(void)
{
    steps = resized(steps, (size_t)(batch_count + 1) * sizeof(*steps));
    struct step *step = &steps[batch_count++];
    *step = (struct step){.action = action};
    memcpy(step->fields, fields, sizeof(fields));
    return step;
}

/* The text after a member, whose allocation becomes the present action, or NULL. */
static char *read_member(char *text)
{
    static const long allocations[] = {ALLOCATE_NODE, ALLOCATE_ARRAY, ALLOCATE_STRING};
    clear_fields();
    char *after = read_object(text, FIELD_NAMES, FIELDS_END, fields), *kind;
    if (!after || !(kind = strstr(text, "\"kind\"")) || kind > after)
        return NULL;
    kind = skip_blanks(strchr(kind, ':') + 1);
    fields[LENGTH] = fields[LENGTH] == UNSET ? 0 : fields[LENGTH];
    fields[NUMBER] = fields[NUMBER] == UNSET ? 0 : fields[NUMBER];
    for (long index = 0; index < COUNT_OF(allocations); index++) {
        const char *name = ACTION_NAMES[allocations[index]] + strlen("allocate_");
        if (*kind == '"' && strncmp(kind + 1, name, strlen(name)) == 0)
            action = allocations[index];
    }
    return after;
}

/* Add a step for each member of a group. */
static void add_group(char *line)
{
    char *text = strstr(line, "\"members\"");
    long count = 0;
    text = text ? strchr(text, '{') : NULL;
    while (text && (text = read_member(text)) && action >= 0) {
        add_step()->before = count++;
        text = strchr(text, '{');
    }
    if (action < 0 || count == 0 || count > MEMBERS_MAX) {
        batch_count -= count;
        clear_fields();
        add_step();
        return;
    }
    for (long index = 0; index < count; index++)
        steps[batch_count - count + index].members = count;
}

static void add_line(char *line)
{
    unanswered++;
    if (strstr(line, "\"allocate_group\"")) {
        add_group(line);
        return;
    }
    clear_fields();
    if (!read_object(skip_blanks(line), FIELD_NAMES, FIELDS_END, fields))
        action = -1;
    add_step();
}

/* Read the actions of a trace. How many steps they take. */
long gcfuzz_batch(void)
{
    char *line;
    unanswered = 0;
    while ((line = peek_line()) && !is_header(line)) {
        if (strncmp(skip_blanks(line), "{}", 2) == 0) {
            take_line(line);
            return batch_count;
        }
        take_line(line);
        add_line(line);
    }
    if (line)
        leave_line(line);
    return batch_count;
}

static void forget_events(void)
{
    order_length = samples = minors = addresses_count = 0;
    reports_length = 0;
    memset(samples_by_member, 0, sizeof(samples_by_member));
}

long gcfuzz_take_step(long number)
{
    action = steps[number].action;
    memcpy(fields, steps[number].fields, sizeof(fields));
    return action;
}

static long place_of(long slot)
{
    return slot < 0 ? -1 : ROOTS_MAX - 1 - slot;
}

long gcfuzz_next_place(void)
{
    check_room_for_root();
    return place_of(roots_count);
}

long gcfuzz_operand(long number, long index)
{
    return steps[number].operands[index];
}

static void set_operands(long *operands, long operation, long first, long second)
{
    operands[OPERATION] = operation, operands[FIRST] = first, operands[SECOND] = second;
}

/* What machine code has to do for the present action. Members have constant lengths: an object of a
   variable length is no part of a block. */
static void choose_operation(struct step *step)
{
    long root = fields[ROOT] == UNSET ? -1 : fields[ROOT], place = place_of(root);
    long kind = root < 0 ? 0 : kind_of(SLOT(root)), value = place_of(fields[VALUE]);
    long length = fields[LENGTH];
    int is_in_memory = settings[OPERANDS_IN_MEMORY] && !step->members;
    long *operands = step->operands;
    set_operands(operands, OP_ELSEWHERE, 0, 0);
    operands[PLACE] = place_of(roots_count);
    operands[HELD] = FORGET_HELD;
    if (fields[NONMOVABLE] == 1 || fields[DESTRUCTOR] >= 0)
        return;
    if ((action == WRITE_NUMBER || action == READ_NUMBER) && kind == NODE &&
        destructible_of(SLOT(root)))
        return;
    if (action == ALLOCATE_NODE)
        set_operands(operands, OP_NEW_NODE, fields[NUMBER], 0);
    else if (action == ALLOCATE_STRING)
        set_operands(operands, is_in_memory ? OP_NEW_STRING_OF : OP_NEW_STRING, length, 0);
    else if (action == ALLOCATE_ARRAY)
        set_operands(operands, is_in_memory ? OP_NEW_ARRAY_OF : OP_NEW_ARRAY, length, 0);
    else if (action == WRITE && kind == ARRAY) {
        set_operands(operands, is_in_memory ? OP_WRITE_ITEM_AT : OP_WRITE_ITEM, place, value);
        operands[PLACE] = fields[FIELD];
    } else if (action == WRITE)
        set_operands(operands, fields[FIELD] ? OP_WRITE_NEXT : OP_WRITE_PREV, place, value);
    else if (action == WRITE_NUMBER)
        set_operands(operands, OP_WRITE_NUMBER, place, fields[NUMBER]);
    else if (action == FREE && root == roots_count - 1 && !ORDERED_ONLY)
        /* What is answered now is the heap alone, so the object may never have existed. */
        set_operands(operands, OP_FORGET_LAST, place, 0);
    else if (action == READ && kind == ARRAY)
        set_operands(operands, is_in_memory ? OP_READ_ITEM_AT : OP_READ_ITEM, place, fields[FIELD]);
    else if (action == READ)
        set_operands(operands, fields[FIELD] ? OP_READ_NEXT : OP_READ_PREV, place, 0);
    else if (action == READ_NUMBER && kind == NODE)
        set_operands(operands, OP_NODE_NUMBER, place, 0);
    else if (action == READ_NUMBER && kind == ARRAY)
        set_operands(operands, OP_ARRAY_LENGTH, place, 0);
    else if (action == READ_NUMBER && kind == STRING)
        set_operands(operands, OP_STRING_LENGTH, place, 0);
}

/* What machine code may read from memory: a length, or an index. */
long gcfuzz_in_memory(long number)
{
    const long *known = steps[number].fields;
    return known[LENGTH] != UNSET ? known[LENGTH] : known[FIELD];
}

static long bytes_of_member(const struct step *step)
{
    long kind = step->action == ALLOCATE_NODE ? NODE : step->action == ALLOCATE_ARRAY ? ARRAY : STRING;
    return (unrounded_bytes(kind, step->fields[LENGTH]) + 7) / 8 * 8;
}

/* In the first round: whether this step begins a group that does not fit. The interpreter allocates
   each member by itself, and must collect where machine code does. */
long gcfuzz_collects_first(long number)
{
    long bytes = 0;
    if (IS_INTERPRETED || steps[number].before)
        return 0;
    for (long index = 0; index < steps[number].members; index++)
        bytes += bytes_of_member(&steps[number + index]);
    return gc.free + (word)bytes > gc.top;
}

/* Whether this step can be carried out. No later one can be if it cannot. */
long gcfuzz_prepare(long number)
{
    gcfuzz_take_step(number);
    forget_events();
    objected = number >= STEPS_MAX ? "RuntimeError: the trace is too long for machine code" :
               action < 0 ? "IllegalError: no action" : objection();
    if (objected)
        return 0;
    choose_operation(&steps[number]);
    steps_count = number + 1;
    return 1;
}

/* Do to the list of slots what the present action has done to the roots. The slot, number or answer
   that it found, or -1. */
static long settle(void)
{
    long found = -1;
    if (ALLOCATES(action) || action == LOAD_PREBUILT || action == RESURRECT ||
        (action == READ && SLOT(roots_count)))
        set_roots_count(roots_count + 1, kept_count);
    else if (action == FREE)
        set_roots_count(roots_count - 1, kept_count);
    else if (action == READ_NUMBER)
        return told;
    else if (action == READ_WEAKREF)
        return ((word *)SLOT(fields[ROOT]))[1] != 0;
    else
        return -1;
    if (action == READ)
        for (found = 0; SLOT(found) != SLOT(roots_count - 1);)
            ++found;
    return found;
}

/* In the first round: the present step has been carried out. */
void gcfuzz_learn(long number)
{
    long operation = steps[number].operands[OPERATION], found = settle();
    if (action == RUN_FINALIZERS)
        take_finalized();
    int has_answer = action == READ || operation >= OP_NODE_NUMBER || action == READ_WEAKREF ||
                     action == TAKE_IDENTITY || action == CHECK_HEAP || action == COLLECT_MINOR ||
                     action == COLLECT_PROGRESS || action == COLLECT_STEP || action == COLLECT_FULL;
    int is_store = operation >= OP_WRITE_PREV && operation <= OP_FORGET_LAST;
    int is_quiet = is_store || (operation >= OP_NEW_NODE && operation <= OP_NEW_ARRAY_OF) ||
                   (action == READ && found >= 0);
    struct step *step = &steps[number];
    /* A block passes a pinned object where its members would not. So it is not known here when machine
       code collects. */
    has_pinned |= action == PIN;
    step->cannot_wait = ORDERED_ONLY ? !is_quiet || minors > 0 || has_pinned : has_answer;
    step->cannot_wait |= step->before && step[-1].cannot_wait;
}

/* Whether to observe before the next step. */
static int is_observed_before(const struct step *step, const struct step *next)
{
    return step->cannot_wait || next->operands[OPERATION] == OP_ELSEWHERE ||
           (ORDERED_ONLY && ALLOCATES(next->action));
}

/* If this step follows an allocation, and uses an older root, machine code holds that one in a
   register while it allocates. A collection there must know of it. */
static void hold_root(long number)
{
    long *operands = steps[number].operands, before = number - 1 - steps[number - 1].before;
    if (operands[OPERATION] < OP_WRITE_PREV || operands[OPERATION] == OP_FORGET_LAST ||
        !ALLOCATES(steps[number - 1].action) || before == 0 ||
        operands[FIRST] <= steps[before].operands[PLACE])
        return;
    steps[before - 1].operands[HELD] = operands[FIRST];
    for (; before < number; before++)
        steps[before].operands[HELD] = KEEP_HELD;
    operands[FIRST] = FORGET_HELD;
}

/* Forget what a round has done. */
static void forget_round(void)
{
    forget_events();
    set_roots_count(0, 0);
    answered_count = identities_count = destructibles_count = 0;
    pending.count = kept.count = called.count = 0;
}

/* Decide after which steps to observe. Within a group only the interpreter is observed. */
void gcfuzz_plan(void)
{
    for (long number = 0; number < steps_count; number++) {
        struct step *step = &steps[number], *next = step + 1;
        int is_last = number + 1 == steps_count;
        step->operands[LOADS] = step->before == 0 && step->operands[OPERATION] >= OP_NEW_NODE &&
                                step->operands[OPERATION] <= OP_NEW_ARRAY_OF;
        /* The newest root, which is the most likely to move. */
        step->operands[LOADED_ROOT] =
            step->operands[PLACE] + 1 < ROOTS_MAX ? step->operands[PLACE] + 1 : -1;
        if (is_last || (has_more(step) && IS_INTERPRETED) ||
            (!has_more(step) && is_observed_before(step, next)))
            step->operands[OBSERVED] = settings[EXCEPTIONS] ? RAISES : IS_OBSERVED;
    }
    for (long number = 2; number < steps_count; number++)
        hold_root(number);
    for (long guard = 1; guard <= settings[FAILING_GUARDS] && guard <= GUARDS_MAX; guard++) {
        long place = guard * steps_count / (settings[FAILING_GUARDS] + 1);
        if (place < steps_count && !has_more(&steps[place]))
            steps[place].operands[GUARD] = guard;
    }
    forget_round();
    is_muted = 1;
}

void gcfuzz_tell(long number)
{
    told = number;
}

void gcfuzz_seen(long number)
{
    (void)number;
}

/* Only what is promised if allocations move. */
static void put_heap_answer(long found)
{
    size_t before = output_length;
    int is_first = 1;
    int is_asked = action == READ || action == READ_NUMBER || action == TAKE_IDENTITY;
    put("{");
    if (is_asked && found >= 0) {
        is_first = put_field("value", is_first);
        put_number(found);
    } else if (action == TAKE_IDENTITY) {
        is_first = put_field("identity", is_first);
        put_number(fields[IDENTITY]);
    } else if (strncmp(ACTION_NAMES[action], "collect_", 8) == 0) {
        is_first = put_field("minors", is_first);
        put_number(minors);
    }
    if (action == CHECK_HEAP || (!is_first && !is_asked && minors)) {
        put_field("graph", is_first);
        put_graph();
        if (after_any_graph(before))
            return;
    }
    put("}\n");
}

/* Find the members that samples have named, among the last roots. */
static void name_sampled(long before)
{
    for (long member = 0; member <= before; member++)
        for (long index = 0; index < addresses_count; index++)
            samples_by_member[member] += addresses[index] == SLOT(roots_count - 1 - before + member);
    addresses_count = 0;
}

/* Where the present line of the output begins. */
static size_t line_start;

/* Without the JIT, each member of a group is an allocation and has an answer. */
static void put_member(const struct step *step)
{
    put(step->before ? ", " : "{\"members\": [");
    put_answer(-1, line_start);
    if (!problem && !has_more(step))
        put("]}\n");
}

/* Why that is wrong which machine code has read before the last allocation, or NULL. */
static const char *wrong_registers(long number, long whole, double fraction, word root)
{
    int is_forgotten = 0;
    for (; number >= 0 && !steps[number].operands[LOADS]; number--)
        is_forgotten |= steps[number].action == FREE ||
                        (number > 0 && steps[number - 1].operands[OBSERVED]);
    if (number < 0)
        return NULL;
    if (whole != gcfuzz_in_memory(number) || fraction != (double)number + 0.5)
        return "RuntimeError: a number in a register has changed during an allocation";
    long place = steps[number].operands[LOADED_ROOT];
    if (place >= 0 && !is_forgotten && root != SLOT(place_of(place)))
        return "RuntimeError: a root in a register is not where its object is";
    return NULL;
}

/* Why the characters of the last roots are wrong, or NULL. They are the new objects of these steps. */
static const char *wrong_text(long first, long last)
{
    for (long number = last, slot = roots_count - 1; number >= first; number--, slot--) {
        long length = steps[number].fields[LENGTH];
        if (steps[number].operands[OPERATION] != OP_NEW_STRING || length > COPIED_MAX)
            continue;
        for (long offset = 0; offset < length; offset++)
            if (characters_of(SLOT(slot))[offset] != offset % COPIED_CHARACTERS)
                return "RuntimeError: a new string lacks a character that was copied";
    }
    return NULL;
}

/* Answer all steps up to this one. What has happened since the last observation belongs to the first
   of them: an allocation. */
void gcfuzz_observe(long number, long whole, double fraction, void *root)
{
    long identity = fields[IDENTITY];
    const char *wrong = is_muted ? NULL : wrong_registers(number, whole, fraction, (word)root);
    for (; answered_count <= number && !is_broken; answered_count++) {
        gcfuzz_take_step(answered_count);
        fields[IDENTITY] = identity;
        const struct step *step = &steps[answered_count];
        long found = settle();
        if (has_more(step) && !IS_INTERPRETED)
            continue;
        unanswered -= !is_muted && !has_more(step);
        if (step->before == 0 || !IS_INTERPRETED)
            line_start = output_length;
        name_sampled(step->before);
        is_group = step->members > 0 && !IS_INTERPRETED;
        members_count = is_group ? step->members : 1;
        if (!is_muted && ORDERED_ONLY && !wrong)
            wrong = wrong_text(answered_count - members_count + 1, answered_count);
        if (wrong) {
            output_length = line_start;
            put_error(wrong);
            is_broken = 1;
        } else if (!is_muted && step->members && IS_INTERPRETED)
            put_member(step);
        else if (!is_muted && ORDERED_ONLY)
            gcfuzz_answer(found);
        else if (!is_muted)
            put_heap_answer(found);
        else if (action == RUN_FINALIZERS)
            take_finalized();
        if (ORDERED_ONLY || answered_count == number)
            forget_events();
    }
}

/* The last round has ended: say why there are no more answers, and leave the next header. */
static void end_batch(int is_compiled)
{
    if (!is_compiled) {
        output_length = 0;
        answered_count = 0;
        objected = "RuntimeError: the trace was not compiled";
    }
    for (; answered_count < batch_count; answered_count++) {
        if (has_more(&steps[answered_count]))
            continue;
        if (objected)
            put_error(objected);
        else
            put_gone();
        objected = NULL;
    }
    char *line = peek_line();
    while (line && !is_header(line)) {
        take_line(line);
        line = peek_line();
    }
    end_child(line);
}

/* The mistake that a test plants in the JIT's backend, or 0. */
long gcfuzz_planted(void)
{
    const char *mistake = getenv("GCFUZZ_PLANTED");
    return mistake ? atol(mistake) : 0;
}

/* The heap is empty. */
void gcfuzz_count_from_here(void)
{
    forget_round();
}

/* How many objects were kept until now. */
long gcfuzz_forget_kept(void)
{
    long count = kept_count;
    kept_count = 0;
    return count;
}

/* Where an object that was taken from the queue of finalizers is kept, or -1. */
long gcfuzz_next_kept(void)
{
    if (fields[KEEP] != 1)
        return -1;
    check_room_for_root();
    return kept_count++;
}

long gcfuzz_kept_place(void)
{
    long place = place_of_kept(fields[NUMBER]);
    if (place < 0)
        end_trace("RuntimeError: there is no such object");
    return place;
}

long gcfuzz_is_warming_up(void)
{
    return is_muted;
}

/* The number of an object is in no field of it, if it has a destructor or is a weak reference. */
void gcfuzz_use_hidden_number(void)
{
    word object = SLOT(fields[ROOT]);
    if (action == READ_NUMBER)
        told = number_of(object);
    else
        destructible_of(object)->integer = fields[NUMBER];
}

void gcfuzz_has_traced(void)
{
    is_traced = 1;
}

long gcfuzz_guard_fails(long guard)
{
    return guard < failing_guards;
}

/* Whether the next round is the last one. Of the guards that are to fail, one more fails when those
   before it have led to machine code. */
long gcfuzz_end_round(long is_compiled)
{
    is_compiled &= !is_traced;
    is_traced = 0;
    if (is_last_round)
        end_batch(is_compiled || IS_INTERPRETED);
    compiled_rounds = is_compiled ? compiled_rounds + 1 : 0;
    is_last_round = IS_INTERPRETED || ++rounds == WARM_UP_ROUNDS_MAX;
    if (compiled_rounds == COMPILED_ROUNDS) {
        compiled_rounds = 0;
        is_last_round |= failing_guards++ == settings[FAILING_GUARDS];
    }
    is_muted = !is_last_round;
    forget_round();
    return is_last_round;
}
