/** The event of an object that C2 left out has the stack of the uncommon trap that needs it. */
class LineOfTrap {
    static final int CALLS = 200_000;
    static boolean rare, inCallback;
    static int allocated, line, value = -1;

    static final class Box {
        final int value;

        Box(int value) {
            this.value = value;
        }
    }

    static int allocate(int i) {
        Box box = new Box(i);
        int sum = box.value + 1;
        if (rare) Sampler.sink = box;
        return sum;
    }

    /** The agent calls this at each sample. */
    static void sampled(Object object) {
        if (!(object instanceof Box)) return;
        Sampler.call(null);  // What this allocates is not looked at.
        value = ((Box) object).value;
        for (StackTraceElement frame : new Throwable().getStackTrace()) {
            if (frame.getMethodName().equals("allocate")) line = frame.getLineNumber();
        }
    }

    public static void main(String[] arguments) {
        for (int i = 0; i < CALLS; i++) allocate(i);
        Sampler.interval(0);
        Sampler.enable();
        Sampler.untilSampled();  // From here on each allocation is a sample.
        Sampler.call(LineOfTrap.class);
        rare = true;
        allocate(5);
        Sampler.disable();
        Sampler.verdict(line != 16, "expected the event in line %d, got it in line %d (value %d)", 16, line, value);
    }
}
