(ns magnetar.dev.project
  "The class path of a user's project, from its deps.edn or pom.xml. Called by bin/magnetar, once per change of these files.

  Where the Clojure CLI is installed it reads a deps.edn. Elsewhere its Maven dependencies become a pom of their own, which `mvn`
  resolves: then the version nearest to the project wins, where tools.deps takes the newest. The launcher's own Magnetar takes the
  place of the one that the project names."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.xml :as xml])
  (:import
   (java.io File)
   (java.lang ProcessBuilder$Redirect)
   (java.util List)))

(set! *warn-on-reflection* true)

(defn- refuse
  "Throws what -main says in one sentence."
  [& words]
  (throw (ex-info (apply str words) {:magnetar/reason ::refused})))

;; --- deps.edn

(defn- read-deps [^File file]
  (let [deps (try (edn/read-string {:default tagged-literal} (slurp file))
                  (catch RuntimeException e (refuse file " cannot be read: " (ex-message e))))]
    (when-not (map? deps)
      (refuse file " holds no map."))
    deps))

(defn- alias-map [file deps alias]
  (or (get-in deps [:aliases alias])
      (refuse "there is no alias " alias " in " file "; its aliases are "
              (or (not-empty (str/join ", " (sort (keys (:aliases deps))))) "none") ".")))

(defn- with-aliases
  "Paths and dependencies of `deps` after the aliases: further ones, those in their place, other versions."
  [file deps aliases]
  (reduce (fn [{:keys [paths deps]} {:keys [extra-paths replace-paths extra-deps replace-deps override-deps] :as a}]
            {:paths (into (vec (or replace-paths (:paths a) paths)) extra-paths)
             :deps (let [deps (merge (or replace-deps (:deps a) deps) extra-deps)]
                     (merge deps (select-keys override-deps (keys deps))))})
          {:paths (:paths deps ["src"]), :deps (:deps deps)}
          (map #(alias-map file deps %) aliases)))

(defn- named-paths
  "A path that is a keyword stands for the vector of the alias."
  [deps paths]
  (mapcat #(if (keyword? %) (get-in deps [:aliases %]) [%]) paths))

(defn- ours? [lib]
  (= "magnetar" (namespace lib)))

(defn- file-in ^File [folder path]
  (let [file (io/file path)]
    (.getCanonicalFile (if (.isAbsolute file) file (io/file folder path)))))

(declare of-deps)

(defn- of-local
  "What the dependency on the folder or jar `root` brings; nothing of a folder `above`, which depends on this one."
  [above ^File file lib ^File root]
  (cond
    (above root)                       nil
    (.isFile root)                     {:jars [(str root)]}
    (.isFile (io/file root "deps.edn")) (of-deps root [] above)
    (.isDirectory root)                (refuse lib " in " file " is the folder " root ", which has no deps.edn.")
    :else                              (refuse lib " in " file " is " root ", which is not there.")))

(defn- of-dependency [above ^File file [lib {:keys [local/root] :as coordinate}]]
  (cond
    (ours? lib)                {:ours #{(name lib)}}
    (:mvn/version coordinate)  {:maven {lib coordinate}}
    root                       (of-local above file lib (file-in (.getParentFile file) root))
    :else                      (refuse lib " in " file " is not a :mvn/version or :local/root, and only the Clojure CLI can fetch it: "
                                       "install it (https://clojure.org/guides/install_clojure), or clone it and name the folder as :local/root.")))

(defn- join-all [parts]
  (reduce (fn [all part]
            (-> all
                (update :inputs into (:inputs part))
                (update :paths into (:paths part))
                (update :jars into (:jars part))
                (update :ours into (:ours part))
                (update :maven #(merge (:maven part) %))
                (update :repositories #(merge (:repositories part) %))))
          {:inputs [], :paths [], :jars [], :ours #{}, :maven {}, :repositories {}}
          parts))

(defn of-deps
  "What the deps.edn in the folder says with the aliases: :paths, :jars, :maven dependencies by library, :repositories, the names of
  Magnetar's own artifacts (:ours), and the files it was read from (:inputs). `above` is a set of folders that
  depend on this one: projects may name each other."
  ([folder aliases] (of-deps folder aliases #{}))
  ([folder aliases above]
   (let [file (io/file folder "deps.edn")
         deps (read-deps file)
         {:keys [paths] dependencies :deps} (with-aliases file deps aliases)
         above (conj above (.getCanonicalFile (io/file folder)))]
     (join-all (cons {:inputs [(str file)]
                      :paths (mapv #(str (file-in folder %)) (named-paths deps paths))
                      :repositories (:mvn/repos deps)}
                     (map #(of-dependency above file %) dependencies))))))

;; --- a pom for Maven

(def ^:private usual-repositories
  "Those of tools.deps. Maven asks them in this order."
  [["central" {:url "https://repo1.maven.org/maven2/"}] ["clojars" {:url "https://repo.clojars.org/"}]])

(defn- escape [text]
  (str/escape (str text) {\< "&lt;", \> "&gt;", \& "&amp;"}))

(defn- element [tag & content]
  (str "<" tag ">" (apply str content) "</" tag ">"))

(defn- leaf [tag text]
  (when text (element tag (escape text))))

(defn- exclusion [lib]
  (element "exclusion" (leaf "groupId" (or (namespace lib) (name lib))) (leaf "artifactId" (name lib))))

(defn- dependency [[lib {:keys [mvn/version exclusions extension]}]]
  (let [[artifact classifier] (str/split (name lib) #"\$")]
    (element "dependency"
             (leaf "groupId" (or (namespace lib) artifact)) (leaf "artifactId" artifact) (leaf "version" version)
             (leaf "classifier" classifier) (leaf "type" extension)
             (element "exclusions" (apply str (map exclusion exclusions))))))

(defn- repository [[id {:keys [url]}]]
  (element "repository" (leaf "id" id) (leaf "url" url)))

(defn pom
  "Text of a pom with the Maven dependencies and repositories of a project."
  [{:keys [maven repositories]}]
  (element "project"
           (leaf "modelVersion" "4.0.0") (leaf "groupId" "project") (leaf "artifactId" "project") (leaf "version" "0")
           (element "repositories" (apply str (map repository (concat usual-repositories (remove (comp nil? val) repositories)))))
           (element "dependencies" (apply str (map dependency (sort-by key maven))))))

;; --- other programs

(defn- on-path [program]
  (->> (str/split (or (System/getenv "PATH") "") #":")
       (map #(io/file % program))
       (filter #(and (.isFile ^File %) (.canExecute ^File %)))
       first))

(defn- call
  "Runs the command in the folder, its output in the file `log`; returns whether it succeeded."
  [folder ^File log & command]
  (zero? (.waitFor (-> (ProcessBuilder. ^List (vec command))
                       (.directory (io/file folder))
                       (.redirectInput (ProcessBuilder$Redirect/from (io/file "/dev/null")))
                       (.redirectErrorStream true)
                       (.redirectOutput (ProcessBuilder$Redirect/to log))
                       .start))))

(defn- log-in
  "The launcher's log of what it fetches: .cache/resolve.log, two folders above `work`."
  ^File [work]
  (.getCanonicalFile (io/file work "../../resolve.log")))

(defn- missing-artifacts
  "Coordinates that Maven's or tools.deps' output `text` says it did not find."
  [text]
  (distinct (map second (re-seq #"(?i)could not find artifact ([\w.:$-]+)" text))))

(defn- failed-transfer
  "The artifact and the repository of the first transfer that `text` says failed, in words."
  [text]
  (when-some [[_ artifact repository] (re-find #"Could not transfer artifact (\S+) from/to (.+?\))" text)]
    (str artifact " from " repository)))

(defn- refuse-resolution [source ^File log]
  (let [text (slurp log)]
    (if-let [missing (seq (missing-artifacts text))]
      (refuse source " needs " (str/join ", " missing) ", which no repository has. Look at the name and the version; the log is " log ".")
      (refuse "the libraries of " source " could not be fetched" (some->> (failed-transfer text) (str ", first ")) ". Is the network reachable, is the name right? "
              "The log is " log "."))))

(defn- jars-in [class-path]
  (filter #(str/ends-with? % ".jar") (str/split (str/trim class-path) #":")))

(defn- resolve-by-mvn
  "Jars that Maven finds for the pom; `source` is the file that a failure names."
  [{:keys [work source profiles]} ^File pom-file]
  (when-not (on-path "mvn")
    (refuse "neither `clojure` nor `mvn` is on the PATH, and one of them is needed to fetch the libraries of " source "."))
  (let [out (io/file work "class-path")
        log (log-in work)]
    (when-not (apply call (.getParentFile pom-file) log
                     "mvn" "-N" "-B" "-f" (str pom-file) "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
                     (str "-Dmdep.outputFile=" out)
                     (when (seq profiles) ["-P" (str/join "," profiles)]))
      (refuse-resolution source log))
    (jars-in (slurp out))))

;; --- projects

(defn- with-libraries-of-http
  "The project, and if it needs magnetar-http the libraries that http/deps.edn names."
  [{:keys [ours] :as project} root]
  (if (contains? ours "magnetar-http")
    (join-all [project (dissoc (of-deps (io/file root "http") []) :paths)])
    project))

(defn- by-mvn [folder aliases work root]
  (let [{:keys [maven] :as project} (with-libraries-of-http (of-deps folder aliases) root)
        pom-file (io/file work "pom.xml")]
    (spit pom-file (pom project))
    (update project :jars into
            (when (seq maven)
              (resolve-by-mvn {:work work, :source (str (io/file folder "deps.edn"))} pom-file)))))

(def ^:private folders-of-ours
  "The folder of sources in this checkout of an artifact that `run` does not have on its class path."
  {"magnetar-cluster" "/cluster/src/clj"
   "magnetar-core-async" "/compat/core-async/src/clj"
   "magnetar-erlang" "/erlang/src/clj"
   "magnetar-etf" "/etf/src/clj"
   "magnetar-http" "/http/src/clj"})

(defn- by-clojure
  "What the Clojure CLI says of the project, this checkout's Magnetar in the place of the project's."
  [folder aliases work root]
  (let [log (log-in work)
        source (str (io/file folder "deps.edn"))]
    (when-not (apply call folder log
                     (filterv some? ["clojure" "-Sdeps" (pr-str {:deps {'magnetar/magnetar {:local/root root}}}) "-Spath"
                                     (when (seq aliases) (str "-A" (str/join aliases)))]))
      (refuse-resolution source log))
    (let [entries (str/split (last (str/split-lines (str/trim (slurp log)))) #":")
          foreign (remove #(str/starts-with? (str (file-in folder %)) (str root "/")) entries)]
      {:inputs [source]
       :paths (mapv #(str (file-in folder %)) (remove #(str/ends-with? % ".jar") foreign))
       :jars (filterv #(str/ends-with? % ".jar") foreign)
       :ours (set (for [[artifact path] folders-of-ours, entry entries
                        :when (str/ends-with? (str (file-in folder entry)) path)]
                    artifact))})))

(defn- texts-at
  "Texts of the elements that the path of tags leads to."
  [element & tags]
  (map #(str/trim (str (first (:content %))))
       (reduce (fn [elements tag] (filter #(= tag (:tag %)) (mapcat :content elements))) [element] tags)))

(defn- without-ours
  "The pom's text without its dependencies on Magnetar, which need not be installed."
  [text]
  (str/replace text #"(?s)<dependency>(?:(?!</dependency>).)*<groupId>\s*magnetar\s*</groupId>.*?</dependency>" ""))

(defn- names-ours [text]
  (set (map second (re-seq #"<artifactId>\s*(magnetar(?:-[\w-]+)?)\s*</artifactId>" text))))

(defn- stands-alone?
  "Can a copy of the pom be read in another folder?"
  [text]
  (not (re-find #"<parent>|basedir|<modules>" text)))

(defn- of-pom [folder profiles work]
  (let [file (io/file folder "pom.xml")
        text (slurp file)
        project (try (xml/parse file)
                     (catch org.xml.sax.SAXException e (refuse file " cannot be read: " (ex-message e))))
        copy (io/file work "pom.xml")]
    (when (stands-alone? text) (spit copy (without-ours text)))
    {:inputs [(str file)]
     :ours (names-ours text)
     :paths (->> (concat (texts-at project :build :sourceDirectory)
                         (texts-at project :build :resources :resource :directory)
                         ["src/main/clojure" "src/main/resources" "target/classes"])
                 (map #(file-in folder %))
                 (filter #(.isDirectory ^File %))
                 (map str)
                 distinct
                 vec)
     :jars (resolve-by-mvn {:work work, :source (str file), :profiles (map name profiles)}
                           (if (stands-alone? text) copy file))}))

;; --- one class path of the project's libraries and the launcher's

(defn- library
  "A jar of a Maven repository without version and name: the same for all versions."
  [jar]
  (let [file (io/file jar)]
    (or (some-> (.getParentFile file) .getParentFile str) (str file))))

(defn- version [jar]
  (mapv #(or (parse-long %) 0) (re-seq #"\d+" (.getName (.getParentFile (io/file jar))))))

(defn- newer? [version other]
  (let [width (max (count version) (count other))
        padded #(into % (repeat (- width (count %)) 0))]
    (pos? (compare (padded version) (padded other)))))

(defn- needed-by-magnetar? [jar]
  (re-find #"/org/clojure/(clojure|spec\.alpha|core\.specs\.alpha|core\.match)/" jar))

(defn- loses?
  "Is the project's jar left out, because Magnetar needs the version of the launcher or a newer one?"
  [ours jar]
  (let [our-jar (get ours (library jar))]
    (and our-jar (needed-by-magnetar? jar) (not (newer? (version jar) (version our-jar))))))

(defn merged
  "Jars of the launcher and of the project, one of each library: of what Magnetar needs the newer one, of the rest the project's. The
  launcher's stand first where all of them stay: then its start-up cache serves."
  [our-jars their-jars]
  (let [ours (into {} (map (juxt library identity)) our-jars)
        theirs (remove #(or (loses? ours %) (re-find #"/magnetar/magnetar[\w-]*/" %)) (distinct their-jars))
        taken (set (map library theirs))
        kept (remove #(and (taken (library %)) (not (some #{%} theirs))) our-jars)]
    (distinct (if (= (count kept) (count our-jars))
                (concat our-jars theirs)
                (concat theirs kept)))))

(defn- project [folder aliases work root]
  (cond
    (not (.isFile (io/file folder "deps.edn"))) (of-pom folder aliases work)
    (on-path "clojure")                         (by-clojure folder aliases work root)
    :else                                       (by-mvn folder aliases work root)))

(def ^:private needed
  "Artifacts that an artifact of ours needs, besides magnetar. The launcher adds JGroups for magnetar-cluster."
  {"magnetar-cluster" ["magnetar-etf"]
   "magnetar-erlang" ["magnetar-etf"]})

(defn- own-folders [root ours]
  (map #(str root (val %)) (select-keys folders-of-ours (into ours (mapcat needed) ours))))

(defn- write-result
  "Line 1 the jars, line 2 the folders with a colon before each, then the files that it was read from."
  [target our-jars root {:keys [jars paths inputs ours]}]
  (when-let [path (some #(when (str/includes? % ":") %) paths)]
    (refuse "a class path cannot hold a colon, and " path " has one: move it to another folder."))
  (spit target (str (str/join ":" (merged our-jars jars)) "\n"
                    (apply str (map #(str ":" %) (concat paths (own-folders root ours)))) "\n"
                    (str/join "\n" (distinct inputs)) "\n")))

(defn- aliases-of [text]
  (mapv keyword (remove str/blank? (str/split text #":"))))

(defn -main
  "Writes to the file `target` the class path of the project in `folder` with the aliases (:a:b), merged with the launcher's jars.
  `work` is an empty folder for what Maven needs. Says in a sentence why it cannot, and ends the JVM with 2."
  [folder aliases our-jars root work target]
  (try
    (write-result target (jars-in our-jars) root (project folder (aliases-of aliases) work root))
    (catch clojure.lang.ExceptionInfo e
      (when-not (= ::refused (:magnetar/reason (ex-data e))) (throw e))
      (binding [*out* *err*] (println (str "magnetar: " (ex-message e))))
      (System/exit 2)))
  (shutdown-agents))
