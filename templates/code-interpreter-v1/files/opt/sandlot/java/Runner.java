import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.stream.Collectors;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.ExpressionSnippet;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import sun.misc.Signal;

/**
 * Runs cells of Java by JShell, in this very process. It is started by the interpreter's server, which asks it for one
 * thing after the other through file descriptor 3; what it has to say goes into its standard output as messages, each
 * marked by a token (src/interpreter/runners/frames.ts says how).
 */
public final class Runner {
  private static final int FRAME_MAX_BYTES = 4000;
  private static final String[] IMPORTS = {
    "java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.util.*", "java.util.concurrent.*",
    "java.util.function.*", "java.util.prefs.*", "java.util.regex.*", "java.util.stream.*",
  };

  private static final OutputStream OUTPUT = new FileOutputStream(FileDescriptor.out);
  private static final OutputStream ERRORS = new FileOutputStream(FileDescriptor.err);
  private static String token;
  private static volatile boolean isInterrupted;

  public static void main(String[] args) throws IOException {
    InputStream requests = new BufferedInputStream(new FileInputStream("/proc/self/fd/3"));
    token = read(requests, '\n');
    System.setOut(new Told("stdout"));
    System.setErr(new Told("stderr"));
    try (JShell shell = JShell.builder().executionEngine("local").build()) {
      for (String name : IMPORTS) shell.eval("import " + name + ";");
      Signal.handle(new Signal("INT"), signal -> {
        isInterrupted = true;
        shell.stop();
      });
      done("0", null);
      for (String number = read(requests, 0); number != null; number = read(requests, 0)) {
        take(shell, number, read(requests, 0), read(requests, 0));
      }
    }
    // What a cell has started may still run, and has nobody to run for.
    Runtime.getRuntime().halt(0);
  }

  private static void take(JShell shell, String number, String kind, String body) throws IOException {
    String fault = null;
    switch (kind) {
      case "cell" -> runCell(shell, body);
      case "folder" -> {
        if (Files.isDirectory(Path.of(body))) System.setProperty("user.dir", body);
        else fault = "it is no folder";
      }
      case "set" -> {
        String[] parts = body.split("\u0001", -1);
        for (int at = 0; at + 1 < parts.length; at += 2) System.setProperty(parts[at], parts[at + 1]);
      }
      case "unset" -> {
        for (String name : body.split("\u0001")) if (!name.isEmpty()) System.clearProperty(name);
      }
      case "reseed" -> fault = reseed();
      default -> fault = "unknown request " + kind;
    }
    System.out.flush();
    System.err.flush();
    done(number, fault);
  }

  private static void runCell(JShell shell, String code) throws IOException {
    SourceCodeAnalysis analysis = shell.sourceCodeAnalysis();
    isInterrupted = false;
    String value = null;
    for (String rest = code; !rest.isBlank(); ) {
      CompletionInfo info = analysis.analyzeCompletion(rest);
      String source = info.completeness().isComplete() ? info.source() : rest;
      value = null;
      for (SnippetEvent event : shell.eval(source)) {
        if (event.causeSnippet() != null) continue;
        if (event.status() == Snippet.Status.REJECTED) {
          sayRejected(shell, event.snippet());
          return;
        }
        if (isInterrupted) {
          sayError("Interrupted", "the cell was interrupted", "Interrupted: the cell was interrupted");
          return;
        }
        if (event.exception() != null) {
          sayThrown(event.exception());
          return;
        }
        if (event.snippet() instanceof ExpressionSnippet || isTemporary(event.snippet())) value = event.value();
      }
      if (!info.completeness().isComplete()) break;
      rest = info.remaining();
    }
    if (value == null || value.equals("null")) return;
    say(1, "{\"kind\":\"result\",\"isMain\":true,\"bundle\":{\"text/plain\":" + json(json(value)) + "}}");
  }

  private static boolean isTemporary(Snippet snippet) {
    return snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
  }

  private static void sayRejected(JShell shell, Snippet snippet) throws IOException {
    List<Diag> found = shell.diagnostics(snippet).filter(Diag::isError).collect(Collectors.toList());
    String value = found.isEmpty() ? "the code is not complete" : found.get(0).getMessage(Locale.ENGLISH);
    String all = found.stream().map(each -> each.getMessage(Locale.ENGLISH)).collect(Collectors.joining("\n"));
    sayError("CompilationError", value, snippet.source() + "\n" + (all.isEmpty() ? value : all));
  }

  private static void sayThrown(JShellException thrown) throws IOException {
    String name = thrown instanceof EvalException by ? by.getExceptionClassName() : thrown.getClass().getName();
    String value = thrown.getMessage() == null ? "" : thrown.getMessage();
    StringWriter text = new StringWriter();
    thrown.printStackTrace(new PrintWriter(text, true));
    String stack = text.toString().replaceFirst("^[^\\n]*", Matcher.quoteReplacement(name + ": " + value));
    sayError(name.substring(name.lastIndexOf('.') + 1), value, stack.stripTrailing());
  }

  private static void sayError(String name, String value, String traceback) throws IOException {
    say(1, "{\"kind\":\"error\",\"name\":" + json(name) + ",\"value\":" + json(value) + ",\"traceback\":"
        + json(traceback) + "}");
  }

  /** `Math.random` is what a copy has in common with its original for longest. Gives what went wrong, or null. */
  private static String reseed() {
    try (InputStream system = new FileInputStream("/dev/urandom")) {
      Class<?> holder = Class.forName("java.lang.Math$RandomNumberGeneratorHolder");
      var field = holder.getDeclaredField("randomNumberGenerator");
      field.setAccessible(true);
      ((Random) field.get(null)).setSeed(ByteBuffer.wrap(system.readNBytes(Long.BYTES)).getLong());
      return null;
    } catch (ReflectiveOperationException | IOException | RuntimeException thrown) {
      return thrown.toString();
    }
  }

  /** All that the request has caused is before it in both streams. */
  private static void done(String number, String fault) throws IOException {
    say(2, "{\"done\":" + number + "}");
    say(1, "{\"done\":" + number + (fault == null ? "" : ",\"fault\":" + json(fault)) + "}");
  }

  private static synchronized void say(int stream, String message) throws IOException {
    byte[] bytes = message.getBytes(StandardCharsets.UTF_8);
    for (int at = 0; at < bytes.length; at += FRAME_MAX_BYTES) {
      int length = Math.min(FRAME_MAX_BYTES, bytes.length - at);
      boolean isLast = at + length == bytes.length;
      char kind = bytes.length <= FRAME_MAX_BYTES ? ':' : at == 0 ? '<' : isLast ? '>' : '+';
      ByteArrayOutputStream frame = new ByteArrayOutputStream();
      frame.writeBytes(("\u001e" + token + kind).getBytes(StandardCharsets.UTF_8));
      frame.write(bytes, at, length);
      frame.write(0x1f);
      (stream == 1 ? OUTPUT : ERRORS).write(frame.toByteArray());
    }
  }

  private static String read(InputStream requests, int end) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    for (int next = requests.read(); next != end; next = requests.read()) {
      if (next == -1) return null;
      bytes.write(next);
    }
    return bytes.toString(StandardCharsets.UTF_8);
  }

  private static String json(String text) {
    StringBuilder json = new StringBuilder("\"");
    for (int at = 0; at < text.length(); at++) {
      char unit = text.charAt(at);
      if (unit == '"' || unit == '\\') json.append('\\').append(unit);
      else if (unit < 0x20 || unit > 0x7e) json.append(String.format("\\u%04x", (int) unit));
      else json.append(unit);
    }
    return json.append('"').toString();
  }

  /**
   * What is printed is told at once. A line and its end are told one after the other, because this is a subclass: users
   * of the original's kernel know it so.
   */
  private static final class Told extends PrintStream {
    Told(String kind) {
      super(new OutputStream() {
        @Override
        public void write(int one) throws IOException {
          write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
          String text = new String(bytes, offset, length, StandardCharsets.UTF_8);
          if (!text.isEmpty()) say(1, "{\"kind\":\"" + kind + "\",\"text\":" + json(text) + "}");
        }
      }, true, StandardCharsets.UTF_8);
    }
  }
}
