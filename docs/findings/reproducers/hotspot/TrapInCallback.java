/** A callback's method that is deoptimized while the VM rematerializes an object ends the VM. */
class TrapInCallback {
    static final int CALLS = 200_000;
    static boolean rare, rareToo;
    static int events;

    /** C2 leaves the array out, as it escapes only in a branch that was never taken. */
    static int allocate(int i) {
        int[] pair = {i, i + 1};
        if (rare) Sampler.sink = pair;
        return pair[0] + pair[1];
    }

    /** The agent calls this at each sample. */
    static void sampled(Object object) {
        if (rareToo) events++;
    }

    public static void main(String[] arguments) {
        for (int i = 0; i < CALLS; i++) {
            allocate(i);
            sampled(null);
        }
        System.out.println("one event, whose callback calls a method that is deoptimized");
        Sampler.interval(0);
        Sampler.enable();
        Sampler.untilSampled();  // From here on each allocation is a sample.
        Sampler.call(TrapInCallback.class);
        rare = rareToo = true;
        allocate(1);
        Sampler.verdict(false, "the VM lives");
    }
}
