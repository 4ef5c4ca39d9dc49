import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Predicate;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/** What the reproducers with JDK Flight Recorder share. */
final class Jfr {
    static final int MIB = 1 << 20, SMALL = 1024;
    static volatile Object sink;

    /** Work for it runs in one thread, whose name is "worker". */
    static final ExecutorService WORKER = Executors.newSingleThreadExecutor(task -> {
        Thread thread = new Thread(task, "worker");
        thread.setDaemon(true);
        return thread;
    });

    /** Allocates that many MiB, in arrays of 1 KiB. */
    static void allocate(int mebibytes) {
        for (int i = 0; i < mebibytes * (MIB / SMALL); i++) sink = new byte[SMALL - 16];
    }

    static void allocateInWorker(int mebibytes) throws Exception {
        WORKER.submit(() -> allocate(mebibytes)).get();
    }

    /** Keeps all samples. */
    static void enable(Recording recording) {
        recording.enable("jdk.ObjectAllocationSample").with("throttle", "off").withoutStackTrace();
        recording.enable("jdk.DataLoss");
    }

    static boolean isOf(RecordedEvent event, String thread) {
        return event.getThread() != null && event.getThread().getJavaName() != null
            && event.getThread().getJavaName().startsWith(thread);
    }

    /** Ends the recording; returns the sum of the weights of these samples. */
    static long weights(Recording recording, Predicate<RecordedEvent> wanted) throws Exception {
        Path file = Files.createTempFile(Path.of("."), "recording", ".jfr");
        recording.dump(file);
        recording.close();
        long sum = 0;
        for (RecordedEvent event : RecordingFile.readAllEvents(file)) {
            if (event.getEventType().getName().equals("jdk.DataLoss")) throw new Exception("events were lost");
            if (event.getEventType().getName().equals("jdk.ObjectAllocationSample") && wanted.test(event))
                sum += event.getLong("weight");
        }
        Files.delete(file);
        return sum;
    }

    /** Ends the program: 1 if the promise is broken. */
    static void verdict(boolean broken, String format, Object... values) {
        System.out.printf(format + "%n", values);
        System.exit(broken ? 1 : 0);
    }
}
