/* The part of incminimark-jit that the collector must not see: the steps of a batch.

   compiled.py asks for the operands of each step, and repeats the steps until they are machine code.
   Invariant: only the last round is answered. */

enum { WARM_UP_ROUNDS_MAX = 12, COMPILED_ROUNDS = 2, ALL_OPTIMIZATIONS = 2 };
enum { OPERATION, FIRST, SECOND, PLACE, IS_OBSERVED, OPERANDS };

static struct step {
    long action, fields[FIELDS_END], operands[OPERANDS];
    /* The next step must not begin before this one is observed. */
    int cannot_wait;
} *steps;
static long batch_count, steps_count, answered_count, told, rounds, compiled_rounds;
static const char *objected;
static int is_last_round;

#define ORDERED_ONLY (settings[OPTIMIZATIONS] != ALL_OPTIMIZATIONS)

/* Read the actions of a trace. How many there are. */
long gcfuzz_batch(void)
{
    char *line;
    while ((line = peek_line()) && !is_header(line)) {
        if (strncmp(skip_blanks(line), "{}", 2) == 0) {
            take_line(line);
            return batch_count;
        }
        for (long field = 0; field < FIELDS_END; field++)
            fields[field] = UNSET;
        action = -1;
        if (!read_object(skip_blanks(line), FIELD_NAMES, FIELDS_END, fields))
            action = -1;
        take_line(line);
        steps = resized(steps, (size_t)(batch_count + 1) * sizeof(*steps));
        steps[batch_count] = (struct step){.action = action};
        memcpy(steps[batch_count++].fields, fields, sizeof(fields));
    }
    if (line)
        leave_line(line);
    return batch_count;
}

static void forget_events(void)
{
    order_length = samples = minors = 0;
    reports_length = 0;
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

/* What machine code has to do for the present action. */
static void choose_operation(long *operands)
{
    long root = fields[ROOT] == UNSET ? -1 : fields[ROOT], place = place_of(root);
    long kind = root < 0 ? 0 : kind_of(SLOT(root)), value = place_of(fields[VALUE]);
    long is_variable = settings[VARIABLE_LENGTHS], length = fields[LENGTH];
    set_operands(operands, OP_ELSEWHERE, 0, 0);
    operands[PLACE] = place_of(roots_count);
    if (fields[NONMOVABLE] == 1)
        return;
    if (action == ALLOCATE_NODE)
        set_operands(operands, OP_NEW_NODE, fields[NUMBER], 0);
    else if (action == ALLOCATE_STRING)
        set_operands(operands, is_variable ? OP_NEW_STRING_OF : OP_NEW_STRING, length, 0);
    else if (action == ALLOCATE_ARRAY)
        set_operands(operands, is_variable ? OP_NEW_ARRAY_OF : OP_NEW_ARRAY, length, 0);
    else if (action == WRITE && kind == ARRAY) {
        set_operands(operands, OP_WRITE_ITEM, place, value);
        operands[PLACE] = fields[FIELD];
    } else if (action == WRITE)
        set_operands(operands, fields[FIELD] ? OP_WRITE_NEXT : OP_WRITE_PREV, place, value);
    else if (action == WRITE_NUMBER)
        set_operands(operands, OP_WRITE_NUMBER, place, fields[NUMBER]);
    else if (action == READ && kind == ARRAY)
        set_operands(operands, OP_READ_ITEM, place, fields[FIELD]);
    else if (action == READ)
        set_operands(operands, fields[FIELD] ? OP_READ_NEXT : OP_READ_PREV, place, 0);
    else if (action == READ_NUMBER && kind == NODE)
        set_operands(operands, OP_NODE_NUMBER, place, 0);
    else if (action == READ_NUMBER && kind == ARRAY)
        set_operands(operands, OP_ARRAY_LENGTH, place, 0);
    else if (action == READ_NUMBER && kind == STRING)
        set_operands(operands, OP_STRING_LENGTH, place, 0);
}

/* Whether this step can be carried out. No later one can be if it cannot. */
long gcfuzz_prepare(long number)
{
    gcfuzz_take_step(number);
    forget_events();
    objected = action < 0 ? "IllegalError: no action" : objection();
    if (objected)
        return 0;
    choose_operation(steps[number].operands);
    steps_count = number + 1;
    return 1;
}

/* Do to the list of slots what the present action has done to the roots. The slot, number or answer
   that it found, or -1. */
static long settle(void)
{
    long found = -1;
    if (ALLOCATES(action) || action == LOAD_PREBUILT || (action == READ && SLOT(roots_count)))
        set_roots_count(roots_count + 1, 0);
    else if (action == FREE)
        set_roots_count(roots_count - 1, 0);
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
    int has_answer = action == READ || operation >= OP_NODE_NUMBER || action == READ_WEAKREF ||
                     action == TAKE_IDENTITY || action == CHECK_HEAP || action == COLLECT_MINOR ||
                     action == COLLECT_PROGRESS || action == COLLECT_STEP || action == COLLECT_FULL;
    int is_store = operation >= OP_WRITE_PREV && operation <= OP_WRITE_NUMBER;
    int is_quiet = is_store || (operation >= OP_NEW_NODE && operation <= OP_NEW_ARRAY_OF) ||
                   (action == READ && found >= 0);
    steps[number].cannot_wait = ORDERED_ONLY ? !is_quiet || minors > 0 : has_answer;
}

/* Decide after which steps to observe. */
void gcfuzz_plan(void)
{
    for (long number = 0; number < steps_count; number++) {
        struct step *step = &steps[number], *next = step + 1;
        int is_last = number + 1 == steps_count;
        step->operands[IS_OBSERVED] =
            is_last || step->cannot_wait || next->operands[OPERATION] == OP_ELSEWHERE ||
            (ORDERED_ONLY && ALLOCATES(next->action));
    }
    forget_events();
    set_roots_count(0, 0);
    identities_count = 0;
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

/* Answer all steps up to this one. What has happened since the last observation belongs to the first
   of them: an allocation. */
void gcfuzz_observe(long number)
{
    long identity = fields[IDENTITY];
    for (; answered_count <= number && !is_broken; answered_count++) {
        gcfuzz_take_step(answered_count);
        fields[IDENTITY] = identity;
        long found = settle();
        if (!is_muted && ORDERED_ONLY)
            gcfuzz_answer(found);
        else if (!is_muted)
            put_heap_answer(found);
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
        put_error(objected ? objected : "IllegalError: the heap is gone after an error");
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
    is_muted = 0;
    forget_events();
}

/* Whether the next round is the last one. */
long gcfuzz_end_round(long is_compiled)
{
    if (is_last_round)
        end_batch(is_compiled || !settings[OPTIMIZATIONS]);
    compiled_rounds = is_compiled ? compiled_rounds + 1 : 0;
    is_last_round = !settings[OPTIMIZATIONS] || compiled_rounds == COMPILED_ROUNDS ||
                    ++rounds == WARM_UP_ROUNDS_MAX;
    answered_count = 0;
    identities_count = 0;
    set_roots_count(0, 0);
    return is_last_round;
}
